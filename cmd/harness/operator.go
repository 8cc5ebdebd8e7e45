package main

import "os"

// operatorFlag names the person who acts. Nothing that an operator decides is recorded without a name.
type operatorFlag struct {
	Operator string `help:"Who does this. Default: HARNESS_OPERATOR, or on a terminal the user's name." env:"HARNESS_OPERATOR" placeholder:"NAME"`
}

// name gives the operator, or an error when nobody is named.
func (f operatorFlag) name(s streams) (string, error) {
	if f.Operator != "" {
		return f.Operator, nil
	}
	if user := os.Getenv("USER"); user != "" && s.attended() {
		return user, nil
	}
	return "", misuse("nobody is named: --operator says who does this")
}
