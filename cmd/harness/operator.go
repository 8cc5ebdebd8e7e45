package main

import (
	"os"
	"strings"
	"unicode"
)

// operatorFlag names the person who acts. Nothing that an operator decides is recorded without a name.
type operatorFlag struct {
	Operator string `help:"Who does this. Default: HARNESS_OPERATOR, or on a terminal the user's name." env:"HARNESS_OPERATOR" placeholder:"NAME"`
}

// maxSaidBytes bounds what an operator says.
const maxSaidBytes = 1024

// name gives the operator, or an error when nobody is named.
func (f operatorFlag) name(s streams) (string, error) {
	if f.Operator != "" {
		return f.Operator, checkSaid("--operator", f.Operator)
	}
	if user := os.Getenv("USER"); user != "" && s.attended() {
		return user, nil
	}
	return "", misuse("nobody is named: --operator says who does this")
}

// decides gives the operator of a decision that has a reason, or an error when one of both is none.
func (f operatorFlag) decides(s streams, reason string) (string, error) {
	if err := checkSaid("--reason", reason); err != nil {
		return "", err
	}
	return f.name(s)
}

// checkSaid refuses words that say nothing or cannot be shown on one line: they stay on record.
func checkSaid(flag, text string) error {
	hidden := strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if strings.TrimSpace(text) == "" || len(text) > maxSaidBytes || hidden {
		return misuse("%s: one line of 1 to %d bytes is needed", flag, maxSaidBytes)
	}
	return nil
}
