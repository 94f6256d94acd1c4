package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio/internal/test/skip"
)

func TestHelperTranslatesOptions(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // the command line, or the error
		fake bool
	}{
		{args: "U D", want: "mount --background -- U D"},
		{args: "U D -o rw", want: "mount --background -- U D"},
		{
			args: "U D -o ro,_netdev,nofail,x-systemd.automount,X-mount.mkdir,allow_other,page_cache,remember=1s,uid=5,gid=6,file_mode=644,dir_mode=755",
			want: "mount --background --read-only --allow-other --page-cache --remember=1s --uid=5 --gid=6 --file-mode=644 --dir-mode=755 -- U D",
		},
		{args: "-o noexec,timeout=5s,password_file=/etc/a=b U D", want: "mount --background --no-exec --timeout=5s --password-file=/etc/a=b -- U D"},
		{args: "U D -nvo ro", want: "mount --background --verbose --read-only -- U D"},
		{args: "U D -sfoloop,ro -t lwio", want: "mount --background --read-only -- U D", fake: true},
		{args: "U D -o loop", want: "the option loop is not known"},
		{args: "U D -o uid", want: "the option uid needs a value"},
		{args: "U D -o ro=1", want: "the option ro has no value"},
		{args: "U D -o", want: "-o needs a value"},
		{args: "U D -N /proc/1/ns/mnt", want: "the mount namespace /proc/1/ns/mnt: only that of the process is possible"},
		{args: "U D -x", want: "the flag -x is not known"},
		{args: "U", want: "usage: mount.lwio URL DIR [-fnsv] [-o OPTIONS]"},
		{args: "U D E", want: "usage: mount.lwio URL DIR [-fnsv] [-o OPTIONS]"},
	} {
		got, err := helperOptions(strings.Fields(c.args))
		text := strings.Join(got.command, " ")
		if err != nil {
			text = err.Error()
		}
		if text != c.want || err == nil && got.fake != c.fake {
			t.Errorf("%s: %q, %v; want %q", c.args, text, got.fake, c.want)
		}
	}
}

// Each flag that an option stands for is one of mount.
func TestOptionsOfTheHelperAreFlags(t *testing.T) {
	flags := new(app).root()
	cmd, _, err := flags.Find([]string{"mount"})
	if err != nil {
		t.Fatal(err)
	}
	for option, flag := range flagsOfOptions {
		name, wantsValue := strings.CutSuffix(strings.TrimPrefix(flag, "--"), "=")
		f := cmd.Flag(name)
		if f == nil || (f.NoOptDefVal == "") != wantsValue {
			t.Errorf("the option %s: the flag %s", option, flag)
		}
	}
}

// helperMount runs the command under the name mount.lwio, as mount(8) does, and returns its exit status and output.
func helperMount(t *testing.T, args ...string) (int, string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Test(t, "there is no FUSE")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := filepath.Join(t.TempDir(), helperName)
	if err := os.Symlink(exe, helper); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(helper, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.CombinedOutput() // it waits until no process has the streams
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The helper returns once the share is mounted, without a stream of its caller, and the mount ends with umount.
func TestHelperMountsInTheBackground(t *testing.T) {
	s := startServer(t, t.TempDir())
	dir := t.TempDir()
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if code, out := helperMount(t, s.url, dir, "-o", "rw,noexec,_netdev"); code != 0 || out != "" {
		t.Fatalf("exit status %d: %s", code, out)
	}
	mount := func() string {
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(table), "\n")
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " "+dir+" ") }); i >= 0 {
			return lines[i]
		}
		return ""
	}
	if m := mount(); !strings.Contains(m, "noexec") || !strings.Contains(m, "nosuid") || !strings.Contains(m, " fuse.lwio ") {
		t.Errorf("the mount: %q", m)
	}
	write(t, []byte("#!/bin/sh\n"), dir, "f")
	wantFile(t, filepath.Join(s.dir, "f"), []byte("#!/bin/sh\n"))
	// The shell executes it: here, the start of a program would hold up the server of the mount.
	if err := exec.Command("/bin/sh", "-c", filepath.Join(dir, "f")).Run(); err == nil {
		t.Error("a file of a mount with noexec is executed")
	}
	pid := mountedBy(t, dir)
	unmount(t, dir)
	if m := mount(); m != "" {
		t.Errorf("after umount: %s", m)
	}
	for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(state), ") Z ") {
			break // its parent, which does not wait, is the first process of a container
		}
		if time.Now().After(end) {
			t.Fatal("the process of the mount goes on after umount")
		}
	}
}

// mountedBy returns the process that has mounted a share on dir.
func mountedBy(t *testing.T, dir string) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		line, err := os.ReadFile(p)
		if pid, e := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil && e == nil && strings.Contains(string(line), "\x00"+dir+"\x00") {
			return pid
		}
	}
	t.Fatal("no process has the mount")
	return 0
}

// A failure reaches the caller of the helper, with the exit status that mount(8) knows.
func TestHelperReportsFailures(t *testing.T) {
	s := startServer(t, t.TempDir())
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{s.url, filepath.Join(dir, "none")}, helperFailure, "no such file"},
		{[]string{"lwio://a:b@127.0.0.1:1/data", dir}, helperFailure, "refused"},
		{[]string{s.url + "/path", dir}, helperUsage, "has the path"},
		{[]string{s.url, dir, "-o", "uid=alice"}, helperUsage, "uid"},
		{[]string{s.url, dir, "-o", "loop"}, helperUsage, "loop"},
	} {
		code, out := helperMount(t, c.args...)
		if code != c.code || !strings.Contains(out, c.text) {
			t.Errorf("%s: exit status %d, %s", c.args, code, out)
		}
	}
	if code, out := helperMount(t, s.url, dir, "-f"); code != 0 || out != "" {
		t.Errorf("-f: exit status %d, %s", code, out)
	}
}
