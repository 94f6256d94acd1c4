// Command figures measures LWIO beside what a user would take instead, in one
// run and in turns: the copy of a large file beside smbclient (from our server
// and from Samba) and beside a program that sends a file over TCP (the floor);
// small random reads; many small files; the memory of a server with many
// connections. It prints tables; the ratios are what counts.
//
//	go run ./figures [-size MiB] [-rounds N] [-dir DIR]
//
// Without Samba's programs, or root for smbd, the rows that need them are left
// out, and it says so.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lwio/integration/samba"
)

// lab holds what all measurements use.
type lab struct {
	dir    string // holds share and local, on a disk file system
	share  string // what the servers serve
	local  string // where copies go
	bin    string // the lwio command
	self   string // this program
	size   int64
	rounds int

	server *exec.Cmd // lwio serve
	url    *url.URL
	samba  *samba.Server // nil without Samba
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		exitOn(floorProcess(os.Args[2:]))
		return
	}
	var l lab
	mib := flag.Int64("size", 1024, "size of the large file, in MiB")
	flag.IntVar(&l.rounds, "rounds", 5, "rounds; each figure is the median")
	dir := flag.String("dir", ".", "directory on a disk file system, for scratch files")
	only := flag.String("only", "copy,random,small,memory", "measurements to run")
	flag.Parse()
	l.size = *mib << 20
	exitOn(l.run(*dir, *only))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run sets the lab up, measures, and cleans up.
func (l *lab) run(dir, only string) (err error) {
	if l.dir, err = os.MkdirTemp(dir, "lwio-figures-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return err
	}
	l.share, l.local, l.bin = filepath.Join(l.dir, "share"), filepath.Join(l.dir, "local"), filepath.Join(l.dir, "lwio")
	if err := errors.Join(os.Mkdir(l.share, 0o755), os.Mkdir(l.local, 0o755)); err != nil {
		return err
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-C", "..", "-o", l.bin, "./cmd/lwio").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	if err := l.startServer(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stopServer()) }()
	if l.samba, err = samba.Start(l.share); err != nil {
		fmt.Println("without Samba:", err)
	} else {
		defer l.samba.Stop()
	}
	for _, m := range []struct {
		name string
		run  func() error
	}{{"copy", l.copyLarge}, {"random", l.randomReads}, {"small", l.smallFiles}, {"memory", l.memory}} {
		if strings.Contains(only, m.name) {
			if err := m.run(); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return nil
}

func (l *lab) startServer() error {
	l.server = exec.Command(l.bin, "serve", "--listen", "127.0.0.1:0", samba.Share+"="+l.share)
	l.server.Stderr = os.Stderr
	out, err := l.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.server.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return errors.Join(err, l.stopServer())
	}
	l.url, err = url.Parse(strings.TrimSpace(line))
	return err
}

func (l *lab) stopServer() error {
	_ = l.server.Process.Signal(os.Interrupt)
	return l.server.Wait()
}

// remote is the URL of a name on our server; query may choose a transport.
func (l *lab) remote(name, query string) string {
	u := *l.url
	u.Path += "/" + name
	u.RawQuery = query
	return u.String()
}

// smbclient is the command line that runs commands on a server.
func (l *lab) smbclient(toSamba bool, commands string) *exec.Cmd {
	host, port, user := l.url.Hostname(), l.url.Port(), l.url.User.Username()
	password, _ := l.url.User.Password()
	if toSamba {
		host, port, user, password = l.samba.Host, l.samba.Port, samba.User, samba.Password
	}
	return exec.Command("smbclient", "//"+host+"/"+samba.Share, "-p", port, "-U", user+"%"+password,
		"--client-protection=sign", "-c", commands)
}
