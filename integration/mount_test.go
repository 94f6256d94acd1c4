package integration

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mountShare runs 'lwio mount' on a new directory, over a transport, until the end of the test.
func mountShare(t *testing.T, s *lwioServer, transport string, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	u := *s.url
	u.RawQuery = "provider=" + transport
	cmd := exec.Command(lwioBin, append(append([]string{"mount"}, flags...), u.String(), dir)...)
	cmd.Stderr = &testLog{t: t, prefix: "mount: "}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("mount: %v", err)
		}
		_ = syscall.Unmount(dir, syscall.MNT_DETACH) // of a process that died
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != dir {
		t.Fatalf("mount prints %q: %v", line, err)
	}
	return dir
}

// output runs a program in a directory.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, program), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// fio writes files of a mount in many ways, and reads the same data back.
func TestMountKeepsDataOfFio(t *testing.T) {
	s := serve(t, t.TempDir())
	for _, transport := range transports {
		for _, cache := range []string{"--page-cache=false", "--page-cache"} {
			t.Run(transport+cache, func(t *testing.T) {
				dir := mountShare(t, s, transport, cache)
				for _, job := range [][]string{
					{"--rw=randwrite", "--bsrange=512-128k", "--blockalign=512", "--ioengine=psync", "--numjobs=2"},
					{"--rw=write", "--bs=1m", "--ioengine=libaio", "--iodepth=8", "--direct=1"},
					{"--rw=randrw", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--direct=1"},
					{"--rw=randwrite", "--bs=4k", "--ioengine=mmap"},
				} {
					output(t, dir, "fio", append(job, "--name=data", "--directory="+dir, "--size=4m", "--verify=crc32c", "--verify_fatal=1",
						"--do_verify=1", "--verify_state_save=0", "--randseed=1", "--group_reporting", "--unlink=1")...)
				}
			})
		}
	}
}

// git makes a repository in a mount, and a clone of it, and finds both whole.
func TestMountKeepsRepositoryOfGit(t *testing.T) {
	s := serve(t, t.TempDir())
	dir := mountShare(t, s, "shm", "--remember", "1s")
	repo, clone := filepath.Join(dir, "repo"), filepath.Join(dir, "clone")
	output(t, dir, "git", "init", "-q", repo)
	if err := os.CopyFS(filepath.Join(repo, "wire"), os.DirFS("../internal/wire")); err != nil {
		t.Fatal(err)
	}
	output(t, repo, "git", "add", ".")
	output(t, repo, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "all")
	output(t, repo, "git", "mv", "wire", "moved")
	output(t, repo, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "moved")
	output(t, repo, "git", "gc", "-q")
	output(t, dir, "git", "clone", "-q", "--no-hardlinks", repo, clone)
	for _, at := range []string{repo, clone} {
		if out := output(t, at, "git", "status", "--porcelain"); out != "" {
			t.Errorf("%s differs from its repository:\n%s", at, out)
		}
		output(t, at, "git", "fsck", "--full", "--strict")
	}
	output(t, dir, "diff", "-r", filepath.Join(clone, "moved"), mustAbs(t, "../internal/wire"))
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
