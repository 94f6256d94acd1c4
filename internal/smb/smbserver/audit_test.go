package smbserver

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
)

// auditLog collects the lines of a log in JSON.
type auditLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (a *auditLog) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.Write(p)
}

// logger logs at a level and above.
func (a *auditLog) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(a, &slog.HandlerOptions{Level: level}))
}

// lines returns the lines at AuditLevel, and the text of all lines.
func (a *auditLog) lines(t *testing.T) (lines []map[string]any, text string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	text = a.buf.String()
	for line := range strings.Lines(text) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m["level"] == AuditLevel.String() {
			lines = append(lines, m)
		}
	}
	return lines, text
}

// auditedSession works with files in each way that the audit log covers.
func auditedSession(t *testing.T, s *Server, addr string) {
	bad := dial(t, addr)
	bad.mustNegotiate(0x0311)
	if r := bad.setup(testUser, "guessed", 0); r.status != ntstatus.LogonFailure {
		t.Fatal(r.status)
	}
	c := mount(t, addr, "data")
	id := c.mustCreate(create{name: "old", access: 0x001F01FF, share: 7, disposition: 2})
	c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 10, renameInfo("to", false)))
	c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 20, le.AppendUint64(nil, 1)))
	c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 13, []byte{1}))
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	missing := create{name: "missing", access: 0x120089, share: 7, disposition: 1}
	c.want(ntstatus.ObjectNameNotFound, cmdCreate, missing.body())
	c.want(ntstatus.BadNetworkName, cmdTreeConnect, connectBody("nothing"))
	c.mustConnect("ro")
	c.want(ntstatus.AccessDenied, cmdCreate, rw("f").body())
	ss := s.session(c.session)
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	<-ss.Done()
}

// The audit log has each event with user and address, and no secret. A failure that refuses no
// access is no event.
func TestAuditLogHasEachEvent(t *testing.T) {
	var log auditLog
	s, addr, _ := testServer(t, func(c *Config) { c.Logger = log.logger(slog.LevelDebug) })
	auditedSession(t, s, addr)
	s.Close()
	lines, text := log.lines(t)
	want := []map[string]any{
		{"msg": "logon refused", "user": testUser},
		{"msg": "logon", "dialect": "3.1.1"},
		{"msg": "connect", "share": "data", "rights": "read and write"},
		{"msg": "open", "share": "data", "path": "old", "action": "created", "access": "0x1f01ff", "delete_on_close": false},
		{"msg": "rename", "path": "old", "to": "to"},
		{"msg": "change", "path": "to", "class": "20"},
		{"msg": "delete", "path": "to", "pending": true},
		{"msg": "connect refused", "share": "nothing"},
		{"msg": "connect", "share": "ro", "rights": "read-only"},
		{"msg": "open refused", "share": "ro", "path": "f", "access": "0x1f01ff"},
		{"msg": "session ended", "logoff": true},
	}
	for i, line := range lines {
		if i >= len(want) {
			t.Fatalf("%d lines, want %d\n%s", len(lines), len(want), text)
		}
		for key, value := range want[i] {
			if line[key] != value {
				t.Errorf("line %d: %s is %v, want %v: %v", i, key, line[key], value, line)
			}
		}
		if line["user"] != testUser || !strings.HasPrefix(line["remote"].(string), "127.0.0.1:") {
			t.Errorf("line %d names no user or address: %v", i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d\n%s", len(lines), len(want), text)
	}
	for _, secret := range []string{"guessed", testPassword} {
		if strings.Contains(text, secret) {
			t.Errorf("the log has a password:\n%s", text)
		}
	}
}

// A log of slog.LevelInfo has no line of the audit log.
func TestAuditLogIsBelowInfo(t *testing.T) {
	var log auditLog
	s, addr, _ := testServer(t, func(c *Config) { c.Logger = log.logger(slog.LevelInfo) })
	auditedSession(t, s, addr)
	if lines, text := log.lines(t); len(lines) != 0 || text == "" {
		t.Errorf("%d lines of the audit log in\n%s", len(lines), text)
	}
}

// Attempts that are refused without a comparison write at most one line a second.
func TestAuditLogOfAFloodIsBounded(t *testing.T) {
	var log auditLog
	_, addr, _ := testServer(t, func(c *Config) {
		c.Logger, c.AuthFailures = log.logger(AuditLevel), 1
	})
	for range 20 {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		c.setup("nobody", "guessed", 0)
	}
	lines, text := log.lines(t)
	if n := len(lines); n < 2 || n > 8 {
		t.Errorf("%d lines of 20 attempts\n%s", n, text)
	}
}

// The audit log has each logon that is refused after the proof of the identity, or before one is
// possible, with its cause.
func TestAuditLogHasEachRefusedLogon(t *testing.T) {
	for name, x := range map[string]struct {
		change func(u *userTable, c *Config)
		logons func(t *testing.T, u *userTable, addr string) ntstatus.Status
		status ntstatus.Status
		user   string
		cause  string
	}{
		"client without encryption": {
			change: func(_ *userTable, c *Config) { c.Encryption = EncryptionRequired },
			logons: func(t *testing.T, _ *userTable, addr string) ntstatus.Status {
				c := dial(t, addr)
				c.mustNegotiate(0x0210)
				return c.call(cmdSessionSetup, setupBody([]byte("x"), 0)).status
			},
			status: ntstatus.AccessDenied, cause: "requires encryption",
		},
		"too many connections": {
			change: func(_ *userTable, c *Config) { c.MaxUserConnections = 1 },
			logons: func(t *testing.T, _ *userTable, addr string) ntstatus.Status {
				login(t, addr, 0x0311)
				c := dial(t, addr)
				c.mustNegotiate(0x0311)
				return c.setup(testUser, testPassword, 0).status
			},
			status: ntstatus.RequestNotAccepted, user: testUser, cause: "too many connections",
		},
		"another user": {
			logons: func(t *testing.T, _ *userTable, addr string) ntstatus.Status {
				return login(t, addr, 0x0311).setup("bob", testPassword, 0).status
			},
			status: ntstatus.AccessDenied, user: "bob", cause: "another user",
		},
		"changed password": {
			logons: func(t *testing.T, u *userTable, addr string) ntstatus.Status {
				c := dial(t, addr)
				c.mustNegotiate(0x0311)
				u.change(func(u *userTable) {
					u.looked = func() { u.change(func(u *userTable) { delete(u.passwords, testUser) }) }
				})
				return c.setup(testUser, testPassword, 0).status
			},
			status: ntstatus.LogonFailure, user: testUser, cause: "has changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log auditLog
			u := newUserTable()
			s, addr, _ := testServer(t, func(c *Config) {
				c.Logger, c.Lookup = log.logger(AuditLevel), u.lookup
				if x.change != nil {
					x.change(u, c)
				}
			})
			if st := x.logons(t, u, addr); st != x.status {
				t.Errorf("status %v, want %v", st, x.status)
			}
			s.Close()
			lines, text := log.lines(t)
			n := 0
			for _, line := range lines {
				if line["msg"] != "logon refused" {
					continue
				}
				n++
				if cause, _ := line["error"].(string); line["user"] != x.user || !strings.Contains(cause, x.cause) {
					t.Errorf("user %v, error %v", line["user"], line["error"])
				}
			}
			if n != 1 {
				t.Errorf("%d refused logons, want 1\n%s", n, text)
			}
		})
	}
}
