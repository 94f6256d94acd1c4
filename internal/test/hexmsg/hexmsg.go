// Package hexmsg writes messages as hexadecimal templates, for tests of peers that share no
// code with the code under test.
//
// A template is a list of words: bytes in hexadecimal; NAME, the bytes of a field; NAME:N,
// any N bytes, which become the field NAME. A word that is the name of a field means the
// field, even if it is also hexadecimal.
//
//	f := hexmsg.Fields{"Cookie": {1, 2, 3, 4, 5, 6, 7, 8}}
//	msg, err := f.Make("Cookie 55000000 00000000")
//	err = f.Match("Cookie Information:4 00000000", answer)
package hexmsg

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Fields maps names to bytes.
type Fields map[string][]byte

// Make returns the message of a template without NAME:N.
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

// Match compares a message with a template, and sets the fields of NAME:N. The fields do not
// share memory with the message.
func (f Fields) Match(template string, msg []byte) error {
	rest := msg
	for word := range strings.FieldsSeq(template) {
		at := len(msg) - len(rest)
		name, size, open := strings.Cut(word, ":")
		if open {
			n, err := strconv.Atoi(size)
			if err != nil || n < 0 {
				return fmt.Errorf("hexmsg: %q has no size", word)
			}
			if n > len(rest) {
				return fmt.Errorf("hexmsg: %s at %d: %d bytes instead of %d", name, at, len(rest), n)
			}
			f[name], rest = bytes.Clone(rest[:n]), rest[n:]
			continue
		}
		want, err := f.bytes(word)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(rest, want) {
			return fmt.Errorf("hexmsg: %s at %d is %x instead of %x", word, at, rest[:min(len(rest), len(want))], want)
		}
		rest = rest[len(want):]
	}
	if len(rest) > 0 {
		return fmt.Errorf("hexmsg: %d bytes behind the end of %d", len(rest), len(msg)-len(rest))
	}
	return nil
}

// bytes returns the bytes of a word.
func (f Fields) bytes(word string) ([]byte, error) {
	if b, ok := f[word]; ok {
		return b, nil
	}
	b, err := hex.DecodeString(word)
	if err != nil {
		return nil, fmt.Errorf("hexmsg: %q is neither a field nor hexadecimal", word)
	}
	return b, nil
}

// Uint returns a field of up to 8 bytes as a number, little-endian.
func (f Fields) Uint(name string) uint64 {
	var b [8]byte
	copy(b[:], f[name])
	return binary.LittleEndian.Uint64(b[:])
}

// Set sets a field to a number, little-endian in size bytes, at most 8.
func (f Fields) Set(name string, size int, v uint64) {
	f[name] = binary.LittleEndian.AppendUint64(nil, v)[:size]
}
