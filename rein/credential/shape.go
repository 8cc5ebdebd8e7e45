package credential

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// valueKeys are the keys under which documents of other systems carry a secret itself. No document of ours has a scalar
// under one of them.
var valueKeys = []string{
	"value", "token", "password", "passwd", "passphrase", "secret", "secret_key", "api_key", "apikey", "private_key",
	"access_key", "credential", "authorization", "bearer",
}

// nameParts are what the name of a variable or flag that carries a secret is made of.
var nameParts = []string{
	"token", "password", "passwd", "passphrase", "secret", "apikey", "api_key", "private_key", "privatekey", "access_key",
	"credential", "authorization", "bearer",
}

// valueForms are the forms of well-known secrets.
var valueForms = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY` +
	`|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}` +
	`|\bgithub_pat_[A-Za-z0-9_]{20,}` +
	`|\bglpat-[A-Za-z0-9_-]{16,}` +
	`|\b(?:hvs|hvb|hvr)\.[A-Za-z0-9_-]{16,}` +
	`|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b` +
	`|\bxox[abeprs]-[A-Za-z0-9-]{10,}` +
	`|\bsk-[A-Za-z0-9_-]{20,}` +
	`|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.` +
	`|://[^/\s:@]*:[^/\s@]+@`)

// SecretName reports whether a variable or flag of that name is one that usually carries a secret. (A29)
func SecretName(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "-", "_")
	return slices.ContainsFunc(nameParts, func(part string) bool { return strings.Contains(name, part) })
}

// SecretValue reports whether text has the form of a well-known secret: a private key, a token of a known maker, a URL
// with a password. It cannot know a secret that has no form. (A29)
func SecretValue(text string) bool { return valueForms.MatchString(text) }

// FindValue looks through a decoded document (maps, slices and scalars) for a place that carries a secret itself, by its
// key or by its form, and returns the first such place in key order. It never returns the value. (A29)
func FindValue(document any) (path string, found bool) { return findValue("", document) }

func findValue(path string, node any) (string, bool) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if scalar(node[key]) && slices.Contains(valueKeys, strings.ReplaceAll(strings.ToLower(key), "-", "_")) {
				return at, true
			}
			if SecretValue(key) {
				return path, true
			}
			if place, found := findValue(at, node[key]); found {
				return place, true
			}
		}
	case []any:
		for i, item := range node {
			if place, found := findValue(path+"["+strconv.Itoa(i)+"]", item); found {
				return place, true
			}
		}
	case string:
		return path, SecretValue(node)
	}
	return "", false
}

// scalar reports whether a node of a decoded document can itself be a value: anything but a map, a list or nothing.
func scalar(node any) bool {
	switch node.(type) {
	case map[string]any, []any, nil:
		return false
	default:
		return true
	}
}
