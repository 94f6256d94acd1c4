package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// copyLarge measures the copy of one large file, from the server and to it.
func (l *lab) copyLarge() error {
	if err := l.makeLarge(); err != nil {
		return err
	}
	large, dst := filepath.Join(l.share, "large"), filepath.Join(l.local, "copy")
	get := "get large " + dst
	down := []*subject{{name: "floor: pread to TCP to file", run: func() (*os.ProcessState, error) { return l.floor(large, dst) }}}
	down = append(down, l.overEach("lwio cp", func(query string) *exec.Cmd {
		return exec.Command(l.bin, "cp", l.remote("large", query), dst)
	})...)
	down = append(down, &subject{name: "smbclient get, our server", server: l.server.Process.Pid,
		run: command(func() *exec.Cmd { return l.smbclient(false, get) })})
	if l.samba != nil {
		down = append(down, &subject{name: "smbclient get, Samba", server: l.samba.Pid,
			run: command(func() *exec.Cmd { return l.smbclient(true, get) })})
	}
	fresh := func() error { return errors.Join(removeIf(dst), readAll(large)) }
	if err := inTurns(l.rounds, down, fresh); err != nil {
		return err
	}
	mb := float64(l.size) / 1e6
	if err := table(fmt.Sprintf("copy of %d MiB from the server", l.size>>20), down, mb, "MB/s"); err != nil {
		return err
	}
	if err := l.throwAway(large, mb); err != nil {
		return err
	}
	return l.copyUp(large, mb)
}

// throwAway measures the copy to a destination that costs nothing.
func (l *lab) throwAway(large string, mb float64) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	get := "get large " + os.DevNull
	subjects := []*subject{{name: "floor: pread to TCP to nothing", run: func() (*os.ProcessState, error) { return l.floor(large, os.DevNull) }}}
	subjects = append(subjects, l.overEach("lwio cat", func(query string) *exec.Cmd {
		c := exec.Command(l.bin, "cat", l.remote("large", query))
		c.Stdout = null
		return c
	})...)
	subjects = append(subjects, &subject{name: "smbclient get, our server", server: l.server.Process.Pid,
		run: command(func() *exec.Cmd { return l.smbclient(false, get) })})
	if l.samba != nil {
		subjects = append(subjects, &subject{name: "smbclient get, Samba", server: l.samba.Pid,
			run: command(func() *exec.Cmd { return l.smbclient(true, get) })})
	}
	if err := inTurns(l.rounds, subjects, func() error { return readAll(large) }); err != nil {
		return err
	}
	return table(fmt.Sprintf("%d MiB from the server, thrown away", l.size>>20), subjects, mb, "MB/s")
}

// copyUp measures the other direction.
func (l *lab) copyUp(large string, mb float64) error {
	src, dst := filepath.Join(l.local, "large"), filepath.Join(l.share, "up")
	if err := os.Rename(large, src); err != nil {
		return err
	}
	put := fmt.Sprintf("put %s up", src)
	up := []*subject{{name: "floor: pread to TCP to file", run: func() (*os.ProcessState, error) { return l.floor(src, dst) }}}
	up = append(up, l.overEach("lwio cp", func(query string) *exec.Cmd {
		return exec.Command(l.bin, "cp", src, l.remote("up", query))
	})...)
	up = append(up, &subject{name: "smbclient put, our server", server: l.server.Process.Pid,
		run: command(func() *exec.Cmd { return l.smbclient(false, put) })})
	if l.samba != nil {
		up = append(up, &subject{name: "smbclient put, Samba", server: l.samba.Pid,
			run: command(func() *exec.Cmd { return l.smbclient(true, put) })})
	}
	fresh := func() error { return errors.Join(removeIf(dst), readAll(src)) }
	if err := inTurns(l.rounds, up, fresh); err != nil {
		return err
	}
	return errors.Join(table(fmt.Sprintf("copy of %d MiB to the server", l.size>>20), up, mb, "MB/s"), removeIf(dst), os.Remove(src))
}

// overEach is one of our commands over each of our transports, which the query of a
// URL chooses.
func (l *lab) overEach(what string, cmd func(query string) *exec.Cmd) (rows []*subject) {
	for _, t := range []struct{ provider, name string }{
		{"shm", "shm"}, {"iwarp", "iwarp, CRC on"}, {"smb", "SMB alone"},
	} {
		rows = append(rows, &subject{
			name: what + " (" + t.name + ")", server: l.server.Process.Pid,
			run: command(func() *exec.Cmd { return cmd("provider=" + t.provider) }),
		})
	}
	return rows
}

// makeLarge makes the file to copy, of random bytes.
func (l *lab) makeLarge() error {
	f, err := os.Create(filepath.Join(l.share, "large"))
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, l.size)
	return errors.Join(err, f.Close())
}

func removeIf(name string) error {
	err := os.Remove(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// floor copies a file by the least that a pair of processes can do: one preads
// and writes to a TCP connection, the other reads and writes to a file.
func (l *lab) floor(src, dst string) (*os.ProcessState, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	sender := exec.Command(l.self, "floor", "send", addr, src)
	if err := sender.Start(); err != nil {
		return nil, err
	}
	receiver := exec.Command(l.self, "floor", "receive", addr, dst)
	out, err := receiver.CombinedOutput()
	if err != nil {
		_ = sender.Process.Kill()
		return nil, errors.Join(fmt.Errorf("floor: %w\n%s", err, out), sender.Wait())
	}
	return receiver.ProcessState, sender.Wait()
}

// floorProcess is one of the two processes.
func floorProcess(args []string) error {
	if args[0] == "send" {
		return floorSend(args[1], args[2])
	}
	return floorReceive(args[1], args[2])
}

func floorSend(addr, src string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := f.ReadAt(buf, off)
		if _, werr := c.Write(buf[:n]); werr != nil {
			return werr
		}
		off += int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func floorReceive(addr, dst string) error {
	var c net.Conn
	var err error
	for range 1000 {
		if c, err = net.Dial("tcp", addr); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Create(dst)
	if err != nil {
		return err
	}
	buf := make([]byte, 2<<20) // as large as a huge page: what a file takes most gladly
	for {
		n, err := io.ReadFull(c, buf)
		if _, werr := f.Write(buf[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return f.Close()
		}
		if err != nil {
			return err
		}
	}
}

// smallFiles measures the copy of 10,000 files of 4 KiB.
func (l *lab) smallFiles() error {
	const count, size = 10_000, 4 << 10
	src := filepath.Join(l.share, "small")
	if err := os.Mkdir(src, 0o755); err != nil {
		return err
	}
	block := make([]byte, size)
	for i := range count {
		_, _ = rand.Read(block)
		if err := os.WriteFile(filepath.Join(src, fmt.Sprintf("%05d", i)), block, 0o644); err != nil {
			return err
		}
	}
	dst, up := filepath.Join(l.local, "small"), filepath.Join(l.share, "small-up")
	mget := fmt.Sprintf("prompt OFF; recurse ON; lcd %s; mget small", l.local)
	subjects := []*subject{{name: "cp -r (local)", run: command(func() *exec.Cmd { return exec.Command("cp", "-r", src, dst) })}}
	subjects = append(subjects, l.overEach("lwio cp -r from the server", func(query string) *exec.Cmd {
		return exec.Command(l.bin, "cp", "-r", l.remote("small", query), dst)
	})...)
	subjects = append(subjects, l.overEach("lwio cp -r to the server", func(query string) *exec.Cmd {
		return exec.Command(l.bin, "cp", "-r", src, l.remote("small-up", query))
	})...)
	subjects = append(subjects, &subject{name: "smbclient mget, our server", server: l.server.Process.Pid,
		run: command(func() *exec.Cmd { return l.smbclient(false, mget) })})
	if l.samba != nil {
		subjects = append(subjects, &subject{name: "smbclient mget, Samba", server: l.samba.Pid,
			run: command(func() *exec.Cmd { return l.smbclient(true, mget) })})
	}
	fresh := func() error { return errors.Join(os.RemoveAll(dst), os.RemoveAll(up)) }
	if err := inTurns(min(l.rounds, 3), subjects, fresh); err != nil {
		return err
	}
	return errors.Join(table("10,000 files of 4 KiB", subjects, count, "files/s"), fresh(), os.RemoveAll(src))
}
