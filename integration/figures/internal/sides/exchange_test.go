package sides

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// Records have the sizes of docs/protocol.md.
func TestRecordsHaveSizesOfTheProtocol(t *testing.T) {
	if requestRecord != 96 || answerRecord != 64 {
		t.Errorf("a request has %d bytes, an answer %d", requestRecord, answerRecord)
	}
}

// Frames that one side seals open at the other side in their order, with and without data. A changed byte, a repeated
// frame, and a frame of the own direction do not open.
func TestSealedFramesOpenAtTheOtherSide(t *testing.T) {
	sides := func() (active, passive *sealer) {
		t.Helper()
		active, err := newSealer(true)
		if err != nil {
			t.Fatal(err)
		}
		if passive, err = newSealer(false); err != nil {
			t.Fatal(err)
		}
		return active, passive
	}
	for _, size := range []int{0, tagSize + 1, 4096} {
		active, passive := sides()
		source := filled(make([]byte, size))
		for i := range 2 {
			data, record := make([]byte, size), make([]byte, requestRecord)
			active.seal(data, source, record)
			if size > 0 && bytes.Equal(data, source) {
				t.Errorf("%d bytes are not sealed", size)
			}
			if err := passive.open(data, record); err != nil || !bytes.Equal(data, source) {
				t.Errorf("frame %d of %d bytes: %v", i, size, err)
			}
		}
	}
	for name, change := range map[string]func(data, record []byte){
		"a changed byte of the record": func(_, record []byte) { record[0] ^= 1 },
		"a changed byte of the data":   func(data, _ []byte) { data[0] ^= 1 },
	} {
		active, passive := sides()
		data, record := filled(make([]byte, 64)), make([]byte, answerRecord)
		active.seal(data, data, record)
		change(data, record)
		if passive.open(data, record) == nil {
			t.Errorf("%s: it opens", name)
		}
	}
	active, passive := sides()
	record := make([]byte, requestRecord)
	active.seal(nil, nil, record)
	if active.open(nil, slices.Clone(record)) == nil {
		t.Error("a frame opens at its own side")
	}
	if err := passive.open(nil, slices.Clone(record)); err != nil {
		t.Error(err)
	}
	if passive.open(nil, record) == nil {
		t.Error("a frame opens twice")
	}
}

// Frames arrive whole and in order, however the bytes are cut, and the memory is used again.
func TestFramesArriveWhole(t *testing.T) {
	const size, room, count = 6, 3, 10
	sent := make([]byte, size*count)
	for i := range sent {
		sent[i] = byte(i)
	}
	for name, r := range map[string]io.Reader{
		"all":   bytes.NewReader(sent),
		"half":  iotest.HalfReader(bytes.NewReader(sent)),
		"bytes": iotest.OneByteReader(bytes.NewReader(sent)),
	} {
		f := frames{mem: make([]byte, room*size), size: size}
		var got []byte
		total := 0
		for total < count {
			n, err := f.receive(r, func(frame []byte) error {
				got = append(got, frame...)
				return nil
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			total += n
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
