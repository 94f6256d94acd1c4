package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spoiled is a local file whose connections report an operation other than the executed
// one.
type spoiled struct {
	Local
	do func(f *os.File, o Operation, p []byte)
}

type spoiledConn struct {
	*localConn
	do func(f *os.File, o Operation, p []byte)
}

func (s *spoiled) Open(ctx context.Context, j *Job) (Conn, error) {
	l, err := s.Local.Open(ctx, j)
	if err != nil {
		return nil, err
	}
	return spoiledConn{l.(*localConn), s.do}, nil
}

func (c spoiledConn) Run(_ context.Context, w *Worker) error {
	w.Calls(c.mem, func(o Operation, p []byte) (int, error) {
		c.do(c.f, o, p)
		return len(p), nil
	})
	return nil
}

// Verification finds writes that were reported and not done, also on a file that an earlier
// job wrote, and writes that were not reported.
func TestVerifyFindsLostAndStrayWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	j := job()
	j.Pattern, j.FileSize = RandWrite, 100_000/8*8
	if err := MakeFile(path, j.FileSize); err != nil {
		t.Fatal(err)
	}
	good := func(f *os.File, o Operation, p []byte) { _, _ = f.WriteAt(p, o.Off) }
	for _, c := range []struct {
		name, want string
		do         func(f *os.File, o Operation, p []byte)
	}{
		{"good", "", good},
		{"none", "a block that was written: wrong bytes", func(*os.File, Operation, []byte) {}},
		{"good again", "", good},
		{"half", "a block that was written: wrong bytes", func(f *os.File, o Operation, p []byte) { good(f, o, p[:len(p)/2]) }},
		{"elsewhere", "wrong bytes", func(f *os.File, o Operation, p []byte) { good(f, Operation{Off: o.Off / 2 / 512 * 512}, p) }},
		{"the end too", "a block that was not written: wrong bytes", func(f *os.File, o Operation, p []byte) {
			good(f, o, p)
			good(f, Operation{Off: j.FileSize - 8}, p[:8])
		}},
	} {
		_, err := Run(t.Context(), &spoiled{Local: Local{Path: path}, do: c.do}, j, noCPU)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// readOnly cannot be restored.
type readOnly struct{ fake }

func (r *readOnly) Open(ctx context.Context, j *Job) (Conn, error) {
	l, err := r.fake.Open(ctx, j)
	return readOnlyConn{l}, err
}

type readOnlyConn struct{ Conn }

func (readOnlyConn) WriteAt(context.Context, []byte, int64) (int, error) { return 0, os.ErrPermission }

func TestRunReportsFailedRestore(t *testing.T) {
	j := job()
	j.Pattern = SeqWrite
	r := &readOnly{fake: fake{name: "fake"}}
	if _, err := Run(t.Context(), r, j, noCPU); !errors.Is(err, os.ErrPermission) || r.conns.Load() != 0 {
		t.Errorf("%v, %d connections open", err, r.conns.Load())
	}
}

// A set of blocks has the blocks that were added to it or to a set merged into it.
func TestMergedBlocksHaveTheBlocksOfBoth(t *testing.T) {
	a, b := newBlocks(130), newBlocks(130)
	a.add(0)
	a.add(63)
	b.add(64)
	b.add(129)
	a.merge(b)
	for i := range int64(130) {
		if want := i == 0 || i == 63 || i == 64 || i == 129; a.has(i) != want {
			t.Errorf("%d: %v", i, a.has(i))
		}
	}
}
