package guest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lwio/integration/guest"
)

// The places of the service in the guest.
const (
	serviceAddress = "127.0.0.1:4450"
	serviceLog     = "/tmp/lwio-service.log"
	stopFile       = "/tmp/lwio-clients-end"
	systemdPid     = "/tmp/systemd.pid"
)

// serviceURL is the URL of the share of the service for a provider.
func serviceURL(provider string) string {
	return "lwio://alice:secret@" + serviceAddress + "/data?provider=" + provider
}

// installService installs the units, the user, the program and the configuration, as a package does; the latter has a
// mistake. The texts of the files of packaging come by the parameters. The service gets a file for its log, and may
// start as often as the test wants.
const installService = `
mkdir -p /etc/lwio /srv/data /var/tmp /etc/systemd/system/lwio.service.d /etc/sysusers.d /etc/tmpfiles.d /etc/systemd/system-preset
ln -sf ` + guest.Files + `/lwio /usr/bin/lwio
echo 'disable *' >/etc/systemd/system-preset/00-none.preset # at the first start systemd enables all others
printf %s "$1" >/etc/systemd/system/lwio.service
printf %s "$2" >/etc/systemd/system/lwio.socket
printf %s "$3" >/etc/sysusers.d/lwio.conf
printf %s "$4" >/etc/tmpfiles.d/lwio.conf
systemd-sysusers lwio.conf
systemd-tmpfiles --create lwio.conf
chown lwio:lwio /srv/data
printf '[Service]\nStandardOutput=append:` + serviceLog + `\nStandardError=append:` + serviceLog + `\n[Unit]\nStartLimitIntervalSec=0\n' >/etc/systemd/system/lwio.service.d/log.conf
(umask 077; echo alice:secret >/var/lib/lwio/users)
chown lwio:lwio /var/lib/lwio/users
echo 'a mistake' >/etc/lwio/server.toml`

// repairService makes the configuration one without mistakes.
const repairService = `
cat >/etc/lwio/server.toml <<-end
	users = "/var/lib/lwio/users"
	listen = "` + serviceAddress + `"
	[[share]]
	name = "data"
	path = "/srv/data"
	write = ["alice"]
	end`

// runSystemd runs systemd as the first process of a namespace, as in a container. Its process id in the guest goes to
// systemdPid, and its messages go to the console of the guest.
const runSystemd = `
exec unshare -m -p -f sh -ec '
read pid rest </proc/self/stat
echo "$pid" >` + systemdPid + `
mount -t proc proc /proc
mount -t tmpfs run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
exec env -i container=guest PATH=/usr/sbin:/usr/bin /usr/lib/systemd/systemd --system --unit=basic.target --log-target=console --log-color=no'`

// inSystemd runs its parameters in the namespaces of systemd.
const inSystemd = `exec nsenter -t "$(cat ` + systemdPid + `)" -m -p "$@"`

// serviceTime bounds the test of the service, which takes a minute on an idle machine.
const serviceTime = 10 * time.Minute

// systemd is a systemd that runs in the guest.
type systemd struct {
	t   *testing.T
	g   *guest.Guest
	ctx context.Context
}

// startSystemd starts systemd with the units of packaging until the end of the test.
func startSystemd(t *testing.T, g *guest.Guest) *systemd {
	t.Helper()
	var files []string
	for _, name := range []string{"lwio.service", "lwio.socket", "lwio.sysusers", "lwio.tmpfiles"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), serviceTime)
	t.Cleanup(cancel)
	s := &systemd{t: t, g: g, ctx: ctx}
	s.shell(installService, files...)
	background(t, g, "sh", "-ec", runSystemd)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), exchangeTime)
		defer cancel()
		if t.Failed() {
			if out, err := g.Run(ctx, "cat", serviceLog); err == nil {
				t.Logf("log of the service:\n%s", out)
			}
		}
		// All processes of its namespace end with it.
		if out, err := g.Run(ctx, "sh", "-c", "kill -9 $(cat "+systemdPid+")"); err != nil {
			t.Error(err, out)
		}
	})
	eventually(s.ctx, t, "systemd answers", func() bool {
		_, err := s.try("show", "-p", "Version")
		return err == nil
	})
	return s
}

// shell runs a script in the guest, outside of the namespaces.
func (s *systemd) shell(script string, args ...string) string {
	s.t.Helper()
	out, err := s.g.Run(s.ctx, append([]string{"sh", "-ec", script, "sh"}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// try runs systemctl.
func (s *systemd) try(args ...string) (string, error) {
	return s.g.Run(s.ctx, append([]string{"sh", "-c", inSystemd, "sh", "systemctl"}, args...)...)
}

// do runs systemctl, which must succeed.
func (s *systemd) do(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// property is a property of a unit.
func (s *systemd) property(unit, name string) string {
	s.t.Helper()
	return strings.TrimSpace(s.do("show", "--value", "-p", name, unit))
}

// want expects a property of the service.
func (s *systemd) want(name, value string) {
	s.t.Helper()
	if got := s.property("lwio", name); got != value {
		s.t.Errorf("%s is %q, want %q", name, got, value)
	}
}

// becomes waits until a property of the service has a value.
func (s *systemd) becomes(name string, is func(value string) bool) {
	s.t.Helper()
	eventually(s.ctx, s.t, "another "+name, func() bool { return is(s.property("lwio", name)) })
}

// stayer is a client in the guest.
type stayer struct {
	*guest.Command
	s        *systemd
	provider string
}

// stay starts a client that works on a file until the file stopFile exists.
func (s *systemd) stay(provider string) *stayer {
	s.t.Helper()
	return &stayer{s: s, provider: provider, Command: background(s.t, s.g, "sh", "-c", inSystemd, "sh",
		guest.Files+"/agent", "stay", serviceURL(provider), "file-"+provider, stopFile)}
}

// stayLine is a report of a client.
var stayLine = regexp.MustCompile(`rounds=(\d+) replaced=(\d+)\n`)

// last returns the numbers of the last report, or zeros.
func (c *stayer) last() (rounds, replaced int) {
	c.s.t.Helper()
	all := stayLine.FindAllStringSubmatch(c.Output(), -1)
	if len(all) == 0 {
		return 0, 0
	}
	rounds, _ = strconv.Atoi(all[len(all)-1][1])
	replaced, _ = strconv.Atoi(all[len(all)-1][2])
	return rounds, replaced
}

// ended reports whether the client has ended.
func (c *stayer) ended() bool {
	select {
	case <-c.Ended():
		return true
	default:
		return false
	}
}

// goesOn waits until the client has done further rounds, and has replaced its connection at least that many times.
func (c *stayer) goesOn(replaced int) {
	c.s.t.Helper()
	before, _ := c.last()
	eventually(c.s.ctx, c.s.t, fmt.Sprintf("the client over %s goes on after the loss of %d connections", c.provider, replaced), func() bool {
		if c.ended() {
			c.s.t.Fatalf("the client over %s has ended: %s", c.provider, c.Output())
		}
		rounds, n := c.last()
		return rounds > before && n >= replaced
	})
}

// TestServiceOfSystemd runs the units of packaging under systemd, as their own user, while a client over each software provider reads
// and writes under a lock. The service is active only when it serves. Reload, restart, a hand-over to another process and a kill
// of the server cost no client an error or a lock. A stop leaves nothing behind.
//
// Source: [OP-42]
func TestServiceOfSystemd(t *testing.T) {
	s := startSystemd(t, boot(t))
	if _, err := s.try("start", "lwio"); err == nil || s.property("lwio", "ActiveState") == "active" {
		t.Error("a service with a mistake in its configuration is active")
	}
	s.do("stop", "lwio")
	_, _ = s.try("reset-failed", "lwio") // it is not loaded, or has been started too often
	s.shell(repairService)
	s.do("start", "lwio")
	s.want("ActiveState", "active")
	s.ownUser()
	clients := []*stayer{s.stay("shm"), s.stay("iwarp")}
	replaced := 0
	allGoOn := func() {
		t.Helper()
		for _, c := range clients {
			c.goesOn(replaced)
		}
	}
	allGoOn()
	pid, stored := s.property("lwio", "MainPID"), s.property("lwio", "NFileDescriptorStore")
	if stored == "0" {
		t.Error("systemd keeps no descriptor")
	}
	another := func() {
		t.Helper()
		s.becomes("MainPID", func(p string) bool { return p != pid && p != "0" })
		s.becomes("ActiveState", func(state string) bool { return state == "active" })
		pid = s.property("lwio", "MainPID")
		replaced++
		allGoOn()
		s.becomes("NFileDescriptorStore", func(n string) bool { return n == stored })
	}
	s.do("reload", "lwio")
	allGoOn()
	s.want("MainPID", pid)
	s.do("restart", "lwio")
	another()
	s.handOver(pid)
	another()
	s.want("NRestarts", "0")
	s.do("kill", "-s", "KILL", "--kill-whom=main", "lwio")
	another()
	s.want("NRestarts", "1")
	s.shell("touch " + stopFile)
	for _, c := range clients {
		if out, err := c.Wait(s.ctx); err != nil {
			t.Errorf("the client over %s: %v\n%s", c.provider, err, out)
		}
	}
	s.do("stop", "lwio")
	s.want("NFileDescriptorStore", "0")
	if out, err := s.g.Run(s.ctx, "sh", "-c", inSystemd, "sh", "ls", "/run/lwio"); err == nil {
		t.Errorf("the state is left: %s", out)
	}
	if out, err := s.list(); err == nil {
		t.Errorf("a stopped service lists %q", out)
	}
	s.activate()
}

// ownUser expects that the main process runs as the user of the package.
func (s *systemd) ownUser() {
	s.t.Helper()
	out := s.shell(inSystemd, "grep", "-h", "^Uid:", "/proc/"+s.property("lwio", "MainPID")+"/status")
	want := strings.TrimSpace(s.shell("id -u lwio"))
	if fields := strings.Fields(out); len(fields) != 5 || fields[1] != want || fields[4] != want || want == "0" {
		s.t.Errorf("the server runs as %q, want user %s", out, want)
	}
}

// handOver has the main process hand over to another one, again if the new one is not ready in time. The old one goes on then.
func (s *systemd) handOver(pid string) {
	s.t.Helper()
	for failures := 0; s.property("lwio", "MainPID") == pid; {
		s.do("kill", "-s", "USR2", "--kill-whom=main", "lwio")
		s.becomes("MainPID", func(now string) bool {
			n := strings.Count(s.shell("cat "+serviceLog), "the new process has failed")
			again := n > failures
			failures = n
			return now != pid || again
		})
	}
}

// list lists the share.
func (s *systemd) list() (string, error) {
	return s.g.Run(s.ctx, "sh", "-c", inSystemd, "sh", "/usr/bin/lwio", "ls", "--allow-uid", "any", serviceURL("shm"))
}

// activate has a connection to a socket of systemd start the service. The socket outlives a restart.
func (s *systemd) activate() {
	s.t.Helper()
	s.do("start", "lwio.socket")
	s.want("ActiveState", "inactive")
	for range 2 {
		if out, err := s.list(); err != nil || !strings.Contains(out, "file-shm") {
			s.t.Errorf("%q, %v", out, err)
		}
		s.becomes("ActiveState", func(state string) bool { return state == "active" })
		s.do("restart", "lwio")
	}
	s.do("stop", "lwio.socket", "lwio")
	s.want("ActiveState", "inactive")
}
