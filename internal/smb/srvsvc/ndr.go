package srvsvc

import "unicode/utf16"

// reader reads the arguments of a call. The first error stays.
//
// Source: [C706 14]
type reader struct {
	b   []byte
	at  int
	err error
}

// uint32 returns the next number.
func (r *reader) uint32() uint32 {
	r.at = (r.at + 3) &^ 3
	if r.err != nil || len(r.b)-r.at < 4 {
		r.err = malformed("arguments")
		return 0
	}
	r.at += 4
	return le.Uint32(r.b[r.at-4:])
}

// string returns the next string: its capacity, offset and length, and the characters with the zero
// at the end.
//
// Source: [C706 14.3.4]
func (r *reader) string() string {
	capacity, offset, n := r.uint32(), r.uint32(), r.uint32()
	if r.err != nil || offset != 0 || n > capacity || n == 0 || int64(n)*2 > int64(len(r.b)-r.at) {
		r.err = malformed("string")
		return ""
	}
	units := make([]uint16, n)
	for i := range units {
		units[i] = le.Uint16(r.b[r.at+2*i:])
	}
	r.at += 2 * int(n)
	if units[n-1] != 0 {
		r.err = malformed("end of a string")
		return ""
	}
	return string(utf16.Decode(units[:n-1]))
}

// optionalString skips a string that may be absent.
func (r *reader) optionalString() {
	if r.uint32() != 0 {
		r.string()
	}
}

// writer builds the results of a call.
//
// Source: [C706 14]
type writer struct {
	b        []byte
	pointers uint32
}

func (w *writer) uint32(n uint32) { w.b = le.AppendUint32(w.b, n) }

// pointer writes the id of a pointer that is not null. Each pointer has an id of its own.
//
// Source: [C706 14.3.11]
func (w *writer) pointer() {
	w.pointers++
	w.uint32(0x00020000 + 4*w.pointers)
}

// string writes a string, and the padding behind it.
func (w *writer) string(s string) {
	units := append(utf16.Encode([]rune(s)), 0)
	w.uint32(uint32(len(units)))
	w.uint32(0)
	w.uint32(uint32(len(units)))
	for _, u := range units {
		w.b = le.AppendUint16(w.b, u)
	}
	if len(units)%2 != 0 {
		w.b = append(w.b, 0, 0)
	}
}
