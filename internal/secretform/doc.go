// Package secretform finds released secret values in data, in the forms a program may print or store them in: as they are,
// in base64, in hex, URL-encoded and quoted, whole and line by line. The session log masks with it and the check of a change
// searches with it, so that both know the same forms.
//
// It promises to find every form that Forms lists, wherever data is cut into pieces, in time linear in the data. Encodings
// that Forms does not list are not found: compression, encryption, base64 broken into lines, a value taken apart.
//
// It imports nothing of the harness.
package secretform
