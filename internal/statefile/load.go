package statefile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// bootName is the file with the boot id of the host, a space and a random text. It is on stable storage before the first
// file of the log exists, so after a failure of the host it tells that the files of the log are of before.
const bootName = "boot"

const (
	// bootIDSize bounds a boot id, in bytes.
	bootIDSize = 64
	// bootFileSize bounds the file with it: the random text has 26 bytes.
	bootFileSize = bootIDSize + 28
)

// load reads the files of the directory.
func (l *Log) load(boot string) error {
	if boot == "" || len(boot) > bootIDSize {
		return fmt.Errorf("boot id %q of the host: %w", boot, fs.ErrInvalid)
	}
	l.boot = boot
	gens, err := l.generations()
	if err != nil {
		return err
	}
	same, err := l.sameBoot(boot, len(gens) > 0)
	if err != nil {
		return err
	}
	if !same {
		l.rebooted = len(gens) > 0
		for _, gen := range gens {
			if err := l.dir.remove(nameOf(gen)); err != nil {
				return err
			}
		}
		gens = nil
		content := fmt.Appendf(nil, "%s %s\n", boot, rand.Text())
		if err := l.dir.store(bootName, content); err != nil {
			return err
		}
		l.setInstance(content)
	}
	return l.loadFiles(gens)
}

// sameBoot reports whether the files were written since the last start of the host.
func (l *Log) sameBoot(boot string, files bool) (bool, error) {
	b, err := l.dir.load(bootName)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !files:
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, &CorruptError{File: l.dir.path(bootName), Reason: "the file is missing"}
	case err != nil:
		return false, err
	case len(b) < 2 || len(b) > bootFileSize || b[len(b)-1] != '\n':
		return false, &CorruptError{File: l.dir.path(bootName), Reason: "not a boot id"}
	}
	l.setInstance(b)
	id, _, _ := bytes.Cut(b[:len(b)-1], []byte(" "))
	return string(id) == boot, nil
}

// setInstance sets Instance by the content of the file with the boot id.
func (l *Log) setInstance(content []byte) {
	sum := sha256.Sum256(content)
	copy(l.instance[:], sum[:])
}

// generations returns the generations of the files, in order.
func (l *Log) generations() (gens []uint32, err error) {
	names, err := l.dir.list()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if gen, ok := genOf(name); ok {
			gens = append(gens, gen)
		}
	}
	slices.Sort(gens)
	if n := len(gens); n > 2 || n == 2 && gens[1] != gens[0]+1 {
		return nil, &CorruptError{File: l.dir.path(nameOf(gens[n-1])), Reason: "the file does not follow the file before it"}
	}
	return gens, nil
}

// loadFiles reads the files. With two files the older one is being compacted.
func (l *Log) loadFiles(gens []uint32) error {
	for i, gen := range gens {
		f, err := l.loadFile(gen, i == len(gens)-1, i > 0 || gen == 1)
		switch {
		case err != nil:
			return err
		case f == nil:
			// The file was being made. There is nothing in it.
			if err := l.dir.remove(nameOf(gen)); err != nil {
				return err
			}
			continue
		case l.current != nil:
			l.old = newCompaction(l.current)
		}
		l.current = f
	}
	if l.current != nil {
		return nil
	}
	f, err := createFile(l.dir, 1, l.sizes.chunk)
	l.current = f
	return err
}

// loadFile reads a file into the index. It returns nil for a file without a whole header. last: no file
// follows, so the last frame of this one may be cut. begun: a crash may have cut the making of the file, because it
// is the first one, or the file before it is there too.
func (l *Log) loadFile(gen uint32, last, begun bool) (_ *logFile, err error) {
	f, err := l.dir.open(nameOf(gen))
	if err != nil {
		return nil, err
	}
	loaded := false
	defer func() {
		if !loaded {
			err = errors.Join(err, f.Close())
		}
	}()
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	mark, err := readHeader(f, gen, size)
	if err != nil {
		return nil, err
	}
	if mark == 0 && last && begun {
		return nil, nil
	}
	if mark == 0 {
		return nil, &CorruptError{File: f.Name(), Reason: "header of the file"}
	}
	file := &logFile{file: f, gen: gen, space: size}
	r := frameReader{file: f, off: fileHeader, end: size}
	if err := l.loadFrames(&r, gen); err != nil {
		return nil, err
	}
	if mark != r.off && mark != r.last {
		return nil, &CorruptError{
			File: f.Name(), Offset: markOffset, Reason: fmt.Sprintf("the batches end at %d, and by the header at %d", r.off, mark),
		}
	}
	if r.torn && !last {
		return nil, r.corrupt("a frame is cut, and another file follows")
	}
	file.tail, file.dirty = r.off, r.torn
	loaded = true
	return file, nil
}

// loadFrames applies the frames of a file to the index.
func (l *Log) loadFrames(r *frameReader, gen uint32) error {
	for {
		payload, at, err := r.next()
		if isEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.index.apply(payload, gen, at); err != nil {
			return &CorruptError{File: r.file.Name(), Offset: at, Reason: err.Error()}
		}
	}
}

// isEnd reports the end of the frames of a file.
func isEnd(err error) bool { return err == io.EOF } //nolint:errorlint // frameReader returns a bare io.EOF
