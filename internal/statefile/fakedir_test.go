package statefile

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
)

// errKilled is the error of a fake directory behind the death of the process.
var errKilled = errors.New("killed")

// fakeDir is a directory in memory. Its content survives the death of the process, which comes after
// a number of steps: each written byte, each created or removed file is a step.
type fakeDir struct {
	files map[string][]byte
	// steps is the number of steps left before the process dies; negative for no end.
	steps int
	// fail is asked before each operation, and its error is the result; nil never fails. A write
	// that fails has written half.
	fail func(op string) error
}

func newFakeDir() *fakeDir { return &fakeDir{files: make(map[string][]byte), steps: -1} }

// step takes up to n steps, and returns how many the process still makes.
func (d *fakeDir) step(n int) int {
	if d.steps < 0 {
		return n
	}
	n = min(n, d.steps)
	d.steps -= n
	return n
}

func (d *fakeDir) failure(op string) error {
	if d.fail == nil {
		return nil
	}
	return d.fail(op)
}

func (d *fakeDir) path(name string) string { return "state/" + name }
func (d *fakeDir) close() error            { return nil }

func (d *fakeDir) list() ([]string, error) {
	return slices.Collect(maps.Keys(d.files)), d.failure("list")
}

func (d *fakeDir) create(name string) (file, error) {
	if err := d.failure("create"); err != nil {
		return nil, err
	}
	if _, ok := d.files[name]; ok {
		return nil, fs.ErrExist
	}
	if d.step(1) == 0 {
		return nil, errKilled
	}
	d.files[name] = nil
	return &fakeFile{d, name}, nil
}

func (d *fakeDir) open(name string) (file, error) {
	if err := d.failure("open"); err != nil {
		return nil, err
	}
	if _, ok := d.files[name]; !ok {
		return nil, fs.ErrNotExist
	}
	return &fakeFile{d, name}, nil
}

func (d *fakeDir) remove(name string) error {
	if err := d.failure("remove"); err != nil {
		return err
	}
	if d.step(1) == 0 {
		return errKilled
	}
	delete(d.files, name)
	return nil
}

func (d *fakeDir) store(name string, content []byte) error {
	if err := d.failure("store"); err != nil {
		return err
	}
	if d.step(1) == 0 {
		return errKilled
	}
	d.files[name] = slices.Clone(content)
	return nil
}

func (d *fakeDir) load(name string) ([]byte, error) {
	if err := d.failure("load"); err != nil {
		return nil, err
	}
	b, ok := d.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

// fakeFile is an open file of a fakeDir. A removed file takes no writes.
type fakeFile struct {
	dir  *fakeDir
	name string
}

func (f *fakeFile) Name() string { return f.dir.path(f.name) }
func (f *fakeFile) Close() error { return nil }

func (f *fakeFile) size() (int64, error) { return int64(len(f.dir.files[f.name])), nil }

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.dir.failure("read"); err != nil {
		return 0, err
	}
	b := f.dir.files[f.name]
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// commit stores the bytes behind the first 8 in one of two orders, and then the first 8 in one step.
func (f *fakeFile) commit(p []byte, off int64) error {
	err := f.dir.failure("write")
	n := len(p) - frameCommit
	if err != nil {
		n /= 2
	}
	n = f.dir.step(n)
	rest := f.dir.files[f.name][off+frameCommit:][:len(p)-frameCommit]
	if len(p)%16 == 0 {
		copy(rest, p[frameCommit:][:n])
	} else {
		copy(rest[len(rest)-n:], p[len(p)-n:])
	}
	switch {
	case err != nil:
		return err
	case f.dir.step(1) == 0:
		return errKilled
	}
	copy(f.dir.files[f.name][off:], p[:frameCommit])
	return nil
}

// mark is one step.
func (f *fakeFile) mark(end int64) error {
	switch err := f.dir.failure("mark"); {
	case err != nil:
		return err
	case f.dir.step(1) == 0:
		return errKilled
	}
	binary.LittleEndian.PutUint64(f.dir.files[f.name][markOffset:], uint64(end))
	return nil
}

func (f *fakeFile) truncate(size int64) error {
	if err := f.dir.failure("truncate"); err != nil {
		return err
	}
	if f.dir.step(1) == 0 {
		return errKilled
	}
	return f.resize(size)
}

func (f *fakeFile) reserve(_, to int64) error {
	if err := f.dir.failure("reserve"); err != nil {
		return err
	}
	if f.dir.step(1) == 0 {
		return errKilled
	}
	return f.resize(to)
}

// resize sets the size; new bytes are zero.
func (f *fakeFile) resize(size int64) error {
	b := f.dir.files[f.name]
	if size < int64(len(b)) {
		f.dir.files[f.name] = b[:size:size]
		return nil
	}
	f.dir.files[f.name] = append(b, make([]byte, size-int64(len(b)))...)
	return nil
}
