// Package octets writes messages down byte by byte, for tests of peers that share no code
// with what they test.
//
// A template is a list of words: bytes in hexadecimal; NAME, the bytes of a field; NAME:N,
// N bytes that may be anything, and are the field NAME from then on. What is the name of a
// field is that field, also if it could be hexadecimal.
//
//	f := octets.Fields{"Cookie": {1, 2, 3, 4, 5, 6, 7, 8}}
//	msg, err := f.Make("Cookie 55000000 00000000")
//	err = f.Match("Cookie Information:4 00000000", answer)
package octets

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Fields are bytes that have names.
type Fields map[string][]byte

// Make is the message of a template without NAME:N.
func (f Fields) Make(template string) ([]byte, error) {
	var msg []byte
	for word := range strings.FieldsSeq(template) {
		b, err := f.bytes(word)
		if err != nil {
			return nil, err
		}
		msg = append(msg, b...)
	}
	return msg, nil
}

// Match compares a message with a template, and adds what stands in the places of
// NAME:N. The fields do not share memory with the message.
func (f Fields) Match(template string, msg []byte) error {
	rest := msg
	for word := range strings.FieldsSeq(template) {
		at := len(msg) - len(rest)
		name, size, open := strings.Cut(word, ":")
		if open {
			n, err := strconv.Atoi(size)
			if err != nil || n < 0 {
				return fmt.Errorf("octets: %q has no size", word)
			}
			if n > len(rest) {
				return fmt.Errorf("octets: %s at %d: %d bytes instead of %d", name, at, len(rest), n)
			}
			f[name], rest = bytes.Clone(rest[:n]), rest[n:]
			continue
		}
		want, err := f.bytes(word)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(rest, want) {
			return fmt.Errorf("octets: %s at %d is %x instead of %x", word, at, rest[:min(len(rest), len(want))], want)
		}
		rest = rest[len(want):]
	}
	if len(rest) > 0 {
		return fmt.Errorf("octets: %d bytes behind the end of %d", len(rest), len(msg)-len(rest))
	}
	return nil
}

// bytes are those of a word.
func (f Fields) bytes(word string) ([]byte, error) {
	if b, ok := f[word]; ok {
		return b, nil
	}
	b, err := hex.DecodeString(word)
	if err != nil {
		return nil, fmt.Errorf("octets: %q is neither a field nor hexadecimal", word)
	}
	return b, nil
}

// Uint is a field of up to 8 bytes as a number, little-endian.
func (f Fields) Uint(name string) uint64 {
	var b [8]byte
	copy(b[:], f[name])
	return binary.LittleEndian.Uint64(b[:])
}

// Set makes a field of size bytes, up to 8, from a number, little-endian.
func (f Fields) Set(name string, size int, v uint64) {
	f[name] = binary.LittleEndian.AppendUint64(nil, v)[:size]
}
