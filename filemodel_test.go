package lwio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"pgregory.net/rapid"

	"lwio"
	"lwio/internal/test/filemodel"
	"lwio/lwiotest"
)

// A file behaves like a slice of bytes under every sequence of calls.
func TestFileAgainstModel(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			name := fmt.Sprintf("f%d", run)
			f, err := c.Create(context.Background(), name)
			if err != nil {
				rt.Fatal(err)
			}
			defer c.Remove(context.Background(), name)
			defer func() { f.Close() }()
			unbuffered, err := c.OpenFile(context.Background(), name, os.O_WRONLY|lwio.Unbuffered, 0)
			if err != nil {
				rt.Fatal(err)
			}
			defer unbuffered.Close()
			model{f, unbuffered, nil}.run(rt)
		})
	})
}

type model struct {
	f, unbuffered *lwio.File // the same
	want          []byte
}

func (m model) run(rt *rapid.T) {
	const most = 300_000
	sizes := rapid.OneOf(rapid.IntRange(0, 2000), rapid.SampledFrom([]int{1023, 1024, 1025, 4096, 4097, 65536, 65537}), rapid.IntRange(0, most))
	rt.Repeat(map[string]func(*rapid.T){
		"write": func(rt *rapid.T) {
			off, n := sizes.Draw(rt, "offset"), sizes.Draw(rt, "size")
			data := random(n, rapid.Byte().Draw(rt, "seed"))
			if k, err := m.f.WriteAt(data, int64(off)); k != n || err != nil {
				rt.Fatal(k, err)
			}
			if n > 0 {
				m.resize(max(len(m.want), off+n))
				copy(m.want[off:], data)
			}
		},
		"write segments": func(rt *rapid.T) {
			off, data := sizes.Draw(rt, "offset"), random(sizes.Draw(rt, "size"), rapid.Byte().Draw(rt, "seed"))
			k, err := m.f.WriteVec(context.Background(), filemodel.Segments(rt, data), int64(off))
			if k != len(data) || err != nil {
				rt.Fatal(k, err)
			}
			if k > 0 {
				m.resize(max(len(m.want), off+k))
				copy(m.want[off:], data)
			}
		},
		"write the same": func(rt *rapid.T) {
			off, n := sizes.Draw(rt, "offset"), sizes.Draw(rt, "size")
			p := random(1<<rapid.IntRange(0, 12).Draw(rt, "pattern"), rapid.Byte().Draw(rt, "seed"))
			if k, err := m.unbuffered.WriteSame(context.Background(), p, int64(off), int64(n)); k != int64(n) || err != nil {
				rt.Fatal(k, err)
			}
			if n > 0 {
				m.resize(max(len(m.want), off+n))
				copy(m.want[off:], repeated(p, n))
			}
		},
		"read segments": func(rt *rapid.T) {
			off, p := sizes.Draw(rt, "offset"), make([]byte, sizes.Draw(rt, "size"))
			k, err := m.f.ReadVec(context.Background(), filemodel.Segments(rt, p), int64(off))
			there := min(max(len(m.want)-off, 0), len(p))
			if k != there || (err == io.EOF) != (k < len(p)) || err != nil && err != io.EOF || !bytes.Equal(p[:k], m.want[min(off, len(m.want)):][:k]) { //nolint:errorlint // the contract says bare
				rt.Fatal(k, there, err)
			}
		},
		"read": func(rt *rapid.T) {
			off, n := sizes.Draw(rt, "offset"), sizes.Draw(rt, "size")
			p := bytes.Repeat([]byte{0xEE}, n)
			k, err := m.f.ReadAt(p, int64(off))
			want := m.want[min(off, len(m.want)):min(off+n, len(m.want))]
			if k != len(want) || !bytes.Equal(p[:k], want) {
				rt.Fatalf("read %d at %d of %d: %d, %v", n, off, len(m.want), k, err)
			}
			if k < n != (err == io.EOF) || err != nil && err != io.EOF { //nolint:errorlint // the contract says bare
				rt.Fatalf("read %d at %d of %d: %d, %v", n, off, len(m.want), k, err)
			}
		},
		"truncate": func(rt *rapid.T) {
			n := sizes.Draw(rt, "size")
			if err := m.f.Truncate(context.Background(), int64(n)); err != nil {
				rt.Fatal(err)
			}
			m.resize(n)
		},
		"sync": func(rt *rapid.T) {
			if err := m.f.Sync(context.Background()); err != nil {
				rt.Fatal(err)
			}
		},
		"": func(rt *rapid.T) {
			info, err := m.f.Stat(context.Background())
			if err != nil || info.Size() != int64(len(m.want)) {
				rt.Fatalf("size %v, want %d: %v", info, len(m.want), err)
			}
		},
	})
}

func (m *model) resize(n int) {
	if n <= len(m.want) {
		m.want = m.want[:n]
		return
	}
	m.want = append(m.want, make([]byte, n-len(m.want))...)
}
