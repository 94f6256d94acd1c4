package nbd

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// splitWords are the words of a template.
func splitWords(template string) []string { return strings.Fields(template) }

// sizeOf is the number of bytes of a word of a template.
func (p *peer) sizeOf(word string) int {
	name, size, open := strings.Cut(word, ":")
	if open {
		n, err := strconv.Atoi(size)
		if err != nil {
			p.t.Fatalf("%s: %v", word, err)
		}
		return n
	}
	if b, ok := p.f[name]; ok {
		return len(b)
	}
	b, err := hex.DecodeString(word)
	if err != nil {
		p.t.Fatalf("%s: %v", word, err)
	}
	return len(b)
}

// hexOf is a string in hexadecimal.
func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }
