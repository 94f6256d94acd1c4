package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lwio/integration/figures/internal/sides"
	"lwio/integration/internal/measure"
	"lwio/integration/samba"
)

// direction is the direction of a copy.
type direction string

// The directions.
const (
	down  direction = "down"  // from the server into a file
	null  direction = "null"  // from the server, thrown away
	up    direction = "up"    // to the server
	tree  direction = "tree"  // many small files from the server
	plant direction = "plant" // many small files to the server
)

// smallSize is the size of a small file.
const smallSize = 4 * kib

// smallFlight is the number of small files in flight, as of lwio cp -r.
const smallFlight = 16

// smallFiles is the number of small files: 10,000, or fewer if the large file is small.
func smallFiles(l *measure.Lab) int { return int(min(10_000, l.Size/(100*kib))) }

// tool is the program of a copy.
type tool string

const (
	lwioTool  tool = "lwio"
	smbclient tool = "smbclient"
	localTool tool = "cp -r"
	floorTool tool = "floor" // one process reads and sends over TCP, another receives
)

// copying copies once.
type copying struct {
	tool tool
	way  direction
	via  string        // the transport of lwioTool
	peer *samba.Server // the server of smbclient; nil is ours
}

// prepareCopy makes the files and starts Samba, if it is installed.
func prepareCopy(l *measure.Lab, _ options) ([]measure.Row, error) {
	if err := build(l); err != nil {
		return nil, err
	}
	s, err := samba.Start(l.Share)
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures: without Samba:", err)
	} else {
		l.OnClose(s.Stop)
		if err := measure.Pin(s.Pid, l.Server); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(os.Mkdir(local(l), 0o755), makeLarge(l), makeSmall(l)); err != nil {
		return nil, err
	}
	return []measure.Row{
		copies("large-from", fmt.Sprintf("copy of %d MiB from the server", l.Size>>20), down, s),
		copies("large-null", fmt.Sprintf("%d MiB from the server, thrown away", l.Size>>20), null, s),
		copies("large-to", fmt.Sprintf("copy of %d MiB to the server", l.Size>>20), up, s),
		copies("small-from", fmt.Sprintf("%d files of 4 KiB from the server", smallFiles(l)), tree, s),
		copies("small-to", fmt.Sprintf("%d files of 4 KiB to the server", smallFiles(l)), plant, s),
	}, nil
}

// copies is the row of a direction.
func copies(name, title string, way direction, s *samba.Server) measure.Row {
	r := measure.Row{Name: name, Title: title}
	add := func(name string, c copying) { r.Subjects = append(r.Subjects, measure.Subject{Name: name, Job: c}) }
	if way == tree || way == plant {
		add("cp -r, local", copying{tool: localTool, way: way})
		add("floor: system calls and TCP", copying{tool: floorTool, way: way})
	} else {
		add("floor: pread and TCP", copying{tool: floorTool, way: way})
	}
	if way == tree || way == plant {
		add("lwio, no provider named", copying{tool: lwioTool, way: way}) // then small files go over SMB
	}
	for _, t := range []struct{ via, name string }{{viaShm, "shm"}, {viaIWARP, "iwarp, CRC on"}, {viaSMB, "SMB alone"}} {
		add("lwio, "+t.name, copying{tool: lwioTool, way: way, via: t.via})
	}
	if way == plant {
		return r
	}
	add("smbclient, our server", copying{tool: smbclient, way: way})
	if s != nil {
		add("smbclient, Samba", copying{tool: smbclient, way: way, peer: s})
	}
	return r
}

// local is the directory of the client's files.
func local(l *measure.Lab) string { return filepath.Join(l.Dir, "local") }

// source and destination are the files of a copy.
func (c copying) source(l *measure.Lab) string {
	switch c.way {
	case tree, plant:
		return filepath.Join(l.Share, "small")
	case up:
		return filepath.Join(local(l), "large")
	case down, null:
	}
	return filepath.Join(l.Share, "large")
}

func (c copying) destination(l *measure.Lab) string {
	switch c.way {
	case null:
		return os.DevNull
	case up, plant:
		return filepath.Join(l.Share, "copy")
	case tree:
		return filepath.Join(local(l), filepath.Base(c.source(l)))
	case down:
	}
	return filepath.Join(local(l), "copy")
}

// Run removes the destination of the previous run, reads the source into the page cache,
// flushes dirty pages to the disk, and copies.
func (c copying) Run(ctx context.Context, l *measure.Lab) (measure.Sample, error) {
	src, dst := c.source(l), c.destination(l)
	if c.way != null {
		if err := os.RemoveAll(dst); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dst)
	}
	if c.way != tree && c.way != plant {
		if err := warm(src); err != nil {
			return nil, err
		}
	}
	syscall.Sync()
	if c.tool == floorTool && (c.way == tree || c.way == plant) {
		return sides.Job{Bench: "small", Via: "tcp", File: src, To: dst, Size: smallSize, Flight: smallFlight, Up: c.way == plant}.Run(ctx, l)
	}
	if c.tool == floorTool {
		return sides.Job{Bench: "copy", Via: "tcp", File: src, To: dst, Up: c.way == up}.Run(ctx, l)
	}
	return c.command(ctx, l, src, dst)
}

// reap is the time for a server to reap the child that served a connection. The CPU time of
// the child counts only then.
const reap = 300 * time.Millisecond

// command copies by a command.
func (c copying) command(ctx context.Context, l *measure.Lab, src, dst string) (measure.Sample, error) {
	s, err := server(l, binary(l), l.Server, false)
	if err != nil {
		return nil, err
	}
	argv, pid, out := c.argv(l, s, src, dst), s.PID(), (*os.File)(nil)
	if c.peer != nil {
		pid = c.peer.Pid
	}
	if c.way == null {
		if out, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return nil, err
		}
		defer out.Close()
	}
	m := measure.StartMeter(pid)
	if _, err := l.Command(ctx, m, out, argv...); err != nil {
		return nil, err
	}
	if c.peer != nil {
		time.Sleep(reap)
		m.Server = m.ServerSince()
	}
	sample := measure.Sample{
		measure.Each: float64(m.Took), measure.ClientCPU: float64(m.Client), measure.MachineCPU: float64(m.Machine),
	}
	if c.tool != localTool {
		sample[measure.ServerCPU] = float64(m.Server)
	}
	if c.way == tree || c.way == plant {
		for _, f := range []measure.Figure{measure.Each, measure.ClientCPU, measure.ServerCPU, measure.MachineCPU} {
			if _, ok := sample[f]; ok {
				sample[f] /= float64(smallFiles(l))
			}
		}
		sample[measure.Rate] = float64(smallFiles(l)) / m.Took.Seconds()
	} else {
		sample[measure.Throughput] = float64(l.Size) / m.Took.Seconds()
	}
	return sample, nil
}

// argv is the command line of a copy.
func (c copying) argv(l *measure.Lab, s *measure.Service, src, dst string) []string {
	switch c.tool {
	case localTool:
		return []string{"cp", "-r", src, dst}
	case smbclient:
		return c.smbclient(l, s, src, dst)
	case lwioTool, floorTool:
	}
	remote := func(name string) string {
		if c.via == "" {
			return s.At + "/" + filepath.Base(name)
		}
		return s.At + "/" + filepath.Base(name) + "?provider=" + c.via
	}
	switch c.way {
	case null:
		return []string{binary(l), "cat", remote(src)}
	case up:
		return []string{binary(l), "cp", src, remote(dst)}
	case tree:
		return []string{binary(l), "cp", "-r", remote(src), dst}
	case plant:
		return []string{binary(l), "cp", "-r", src, remote(dst)}
	case down:
	}
	return []string{binary(l), "cp", remote(src), dst}
}

// smbclient is the command line of a copy with signing.
func (c copying) smbclient(l *measure.Lab, s *measure.Service, src, dst string) []string {
	host, port, user, password := "", "", samba.User, samba.Password
	if c.peer != nil {
		host, port = c.peer.Host, c.peer.Port
	} else if u, err := url.Parse(s.At); err == nil {
		host, port, user = u.Hostname(), u.Port(), u.User.Username()
		password, _ = u.User.Password()
	}
	do := fmt.Sprintf("get %s %s", filepath.Base(src), dst)
	switch c.way {
	case up:
		do = fmt.Sprintf("put %s %s", src, filepath.Base(dst))
	case tree:
		do = fmt.Sprintf("prompt OFF; recurse ON; lcd %s; mget %s", local(l), filepath.Base(src))
	case down, null, plant:
	}
	return []string{
		"smbclient", "//" + host + "/" + samba.Share, "-p", port, "-U", user + "%" + password, "--client-protection=sign", "-c", do,
	}
}

// makeLarge makes the file to copy, of random bytes, on both sides.
func makeLarge(l *measure.Lab) error {
	for _, dir := range []string{l.Share, local(l)} {
		f, err := os.Create(filepath.Join(dir, "large"))
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, rand.Reader, l.Size)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeSmall makes the small files, of random bytes.
func makeSmall(l *measure.Lab) error {
	dir := filepath.Join(l.Share, "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	block := make([]byte, smallSize)
	for i := range smallFiles(l) {
		_, _ = rand.Read(block)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d", i)), block, 0o644); err != nil {
			return err
		}
	}
	return nil
}
