package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"sync"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// The vectors were computed with the package cryptography of Python 3 from docs/protocol.md alone.
const (
	vectorKeyC  = "9d8670aedb3bf0a8b420acf842176a61"
	vectorKeyS  = "060eb728b8a20453a97420405b7e09f9"
	vectorData  = "28920cf2a019e61de6354f8a990e371ff0133ff0"
	vectorFirst = "8f769bbb9005f33a377ee6c6b6bc208739f41714a12f70c2eebcdf5b773dfe07286650440db40a4e730ef86b0900d93d3f00513bb17c63d946705e1e55015e80dddc06d7dbc01f7a55a4f1ab78ae70fd78029a823201319fa60d85f810dbaffe"
	vectorNext  = "99d0c4065391a0e9440486ef0154f9a3044e8080fd922048a17e8ac19ae6a995ce87016a22b6bbb00ef9ccf267d8bfa4c49d9389b19d0c59b31f579e4aafd8c807805c0e28b47e2e3ea5613a81a2993624347116c8df9c913165778049e7894d"
	vectorReply = "47896a7ff240655ccb25a61c190402eddd1184a8f38d464b401a4f8d9388a1d3375758ac18ebfadcb5b6fb9bb1a07f6bbc20f6b629f8e67a3cbb98339633efee"
)

func keyOf(t testing.TB, s string) [KeySize]byte {
	t.Helper()
	return [KeySize]byte(unhex(t, s))
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// count returns n bytes that count up from first.
func count(first, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(first + i)
	}
	return b
}

// record seals a message with its data and returns the record.
func record(t testing.TB, s *Sender, message []byte, d *Descriptor) []byte {
	t.Helper()
	b := append(bytes.Clone(message), make([]byte, Overhead)...)
	if err := s.Record(b, d); err != nil {
		t.Fatal(err)
	}
	return b
}

func wantBytes(t testing.TB, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s is %x, want %s", what, got, want)
	}
}

// Source: [OP-114b]
func TestSealedBytesMatchVectors(t *testing.T) {
	s := NewSender(keyOf(t, vectorKeyC), MaxSealed)
	var d Descriptor
	data := count(0x40, 20)
	if err := s.Data(&d, data, data); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "the data", data[:d.Transferred()], vectorData)
	first := record(t, s, count(0, 48), &d)
	wantBytes(t, "the first record", first, vectorFirst)
	short := []byte{0x11, 0x22, 0x33}
	if err := s.Data(&d, short, short); err != nil || d.Transferred() != 0 {
		t.Fatal(err, d.Transferred())
	}
	next := record(t, s, count(0, 48), &d)
	wantBytes(t, "the next record", next, vectorNext)
	wantBytes(t, "the reply", record(t, NewSender(keyOf(t, vectorKeyS), MaxSealed), count(0, 16), new(Descriptor)), vectorReply)

	r := NewReceiver(keyOf(t, vectorKeyC))
	if err := r.Record(first, &d); err != nil || !bytes.Equal(first[:48], count(0, 48)) || d.Length() != 20 {
		t.Fatalf("%v: %x, %d bytes of data", err, first, d.Length())
	}
	if err := r.Data(&d, data); err != nil || !bytes.Equal(data, count(0x40, 20)) {
		t.Errorf("%v: data %x", err, data)
	}
	p := make([]byte, 3)
	if err := errors.Join(r.Record(next, &d), r.Data(&d, p)); err != nil || !bytes.Equal(p, []byte{0x11, 0x22, 0x33}) {
		t.Errorf("%v: data %x", err, p)
	}
}

// Data of every size around the tail opens in place, and from other memory, to the bytes that were sealed.
//
// Source: [OP-114b]
func TestDataOpensToSealedBytes(t *testing.T) {
	s, r := NewSender([KeySize]byte{1}, MaxSealed), NewReceiver([KeySize]byte{1})
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 4096, 65536} {
		plain := count(n, n)
		for _, dst := range [][]byte{bytes.Clone(plain), make([]byte, n)} {
			src := plain
			if n > 0 && dst[n-1] == plain[n-1] && n > 1 {
				src = dst // in place
			}
			var d Descriptor
			if err := s.Data(&d, dst, src); err != nil {
				t.Fatal(err)
			}
			if n > tailSize && bytes.Contains(dst, plain[:n-tailSize]) {
				t.Errorf("%d bytes: the transferred bytes are plain", n)
			}
			clear(dst[d.Transferred():])
			if err := r.Data(&d, dst); err != nil || !bytes.Equal(dst, plain) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

// A change of any bit, another size, another place in the order, a repetition, another key and the
// other direction are all found.
//
// Source: [OP-114b]
func TestForgedRecordsAndDataDoNotOpen(t *testing.T) {
	s := NewSender([KeySize]byte{1}, MaxSealed)
	var d Descriptor
	data := count(0, 40)
	if err := s.Data(&d, data, data); err != nil {
		t.Fatal(err)
	}
	first := record(t, s, count(0, 16), &d)
	second := record(t, s, count(0, 16), new(Descriptor))
	forged := func(name string, b []byte) {
		t.Helper()
		var d Descriptor
		r := NewReceiver([KeySize]byte{1})
		if err := r.Record(bytes.Clone(b), &d); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range first {
		b := bytes.Clone(first)
		b[i] ^= 0x10
		forged("a changed byte", b)
	}
	for n := range first {
		forged("a shorter record", first[:n])
	}
	forged("a longer record", append(bytes.Clone(first), 0))
	forged("the second record first", second)
	r := NewReceiver([KeySize]byte{1})
	again := bytes.Clone(first)
	if err := r.Record(bytes.Clone(first), new(Descriptor)); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(again, new(Descriptor)); !errors.Is(err, ErrForged) {
		t.Errorf("a repeated record: %v", err)
	}
	if err := NewReceiver([KeySize]byte{2}).Record(bytes.Clone(first), new(Descriptor)); !errors.Is(err, ErrForged) {
		t.Errorf("another key: %v", err)
	}
	for i := range data {
		p, x := bytes.Clone(data), d
		p[i] ^= 1
		if err := r.Data(&x, p); !errors.Is(err, ErrForged) || !bytes.Equal(p, make([]byte, len(p))) {
			t.Errorf("byte %d of the data changed: %v, %x", i, err, p)
		}
	}
	for n := range data {
		if x := d; !errors.Is(r.Data(&x, bytes.Clone(data[:n])), ErrForged) {
			t.Errorf("the first %d bytes of the data open", n)
		}
	}
	other := d
	other.number++
	if err := r.Data(&other, bytes.Clone(data)); !errors.Is(err, ErrForged) {
		t.Errorf("the data of another message: %v", err)
	}
}

// Goroutines that seal data at the same time use different numbers, so no nonce repeats.
//
// Source: [OP-114b]
func TestConcurrentDataHasDistinctNumbers(t *testing.T) {
	s := NewSender([KeySize]byte{}, MaxSealed)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[uint64]bool{}
	for range 8 {
		wg.Go(func() {
			p := make([]byte, 32)
			for range 500 {
				var d Descriptor
				if err := s.Data(&d, p, p); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if seen[d.number] {
					t.Errorf("number %d twice", d.number)
				}
				seen[d.number] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// A key that is used up seals nothing more: no number wraps around. The bound holds for data and
// records, and for uses of the AEAD without a byte.
//
// Source: [OP-114b]
func TestUsedUpKeySealsNothing(t *testing.T) {
	for _, size := range []int{0, 1, 100} {
		s := NewSender([KeySize]byte{}, MaxSealed)
		s.sealed.Store(MaxSealed - uint64(size) - usage)
		p := count(0, size)
		var d Descriptor
		if err := s.Data(&d, p, p); err != nil {
			t.Errorf("the last %d bytes: %v", size, err)
		}
		plain := count(0, size)
		if err := s.Data(&d, plain, plain); !errors.Is(err, ErrUsedUp) || !bytes.Equal(plain, count(0, size)) {
			t.Errorf("%d bytes more: %v", size, err)
		}
		b := make([]byte, 16+Overhead)
		if err := s.Record(b, &d); !errors.Is(err, ErrUsedUp) || s.records != 0 || !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("a record more: %v", err)
		}
	}
	if MaxSealed/usage > 1<<62 {
		t.Error("the numbers wrap around before the key is used up")
	}
}

func TestSealAllocatesNothing(t *testing.T) {
	s, r := NewSender([KeySize]byte{}, MaxSealed), NewReceiver([KeySize]byte{})
	p, b, d := make([]byte, 4096), make([]byte, 48+Overhead), new(Descriptor)
	if n := testing.AllocsPerRun(100, func() {
		if s.Data(d, p, p) != nil || s.Record(b, d) != nil || r.Record(b, d) != nil || r.Data(d, p) != nil {
			t.Error("does not open")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Bytes that no Sender made do not open.
func FuzzRecord(f *testing.F) {
	s := NewSender([KeySize]byte{1}, MaxSealed)
	good := record(f, s, count(0, 48), new(Descriptor))
	f.Add(good)
	f.Add(good[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Descriptor
		if err := NewReceiver([KeySize]byte{1}).Record(bytes.Clone(b), &d); err == nil && !bytes.Equal(b, good) {
			t.Errorf("%x opens", b)
		}
	})
}

func benchmark(b *testing.B, size int, do func(s *Sender, r *Receiver, d *Descriptor, p []byte) error) {
	s, r, d, p := NewSender([KeySize]byte{}, MaxSealed), NewReceiver([KeySize]byte{}), new(Descriptor), make([]byte, size)
	b.SetBytes(int64(size))
	for b.Loop() {
		if err := do(s, r, d, p); err != nil {
			b.Fatal(err)
		}
		s.sealed.Store(0)
	}
}

func BenchmarkData(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 512 << 10} {
		b.Run(sizeName(size)+"/seal", func(b *testing.B) {
			benchmark(b, size, func(s *Sender, _ *Receiver, d *Descriptor, p []byte) error { return s.Data(d, p, p) })
		})
		b.Run(sizeName(size)+"/both", func(b *testing.B) {
			benchmark(b, size, func(s *Sender, r *Receiver, d *Descriptor, p []byte) error {
				return errors.Join(s.Data(d, p, p), r.Data(d, p))
			})
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	benchmark(b, 48+Overhead, func(s *Sender, r *Receiver, d *Descriptor, p []byte) error {
		return errors.Join(s.Record(p, d), r.Record(p, d))
	})
}

func sizeName(n int) string {
	return map[int]string{4 << 10: "4K", 64 << 10: "64K", 512 << 10: "512K"}[n]
}
