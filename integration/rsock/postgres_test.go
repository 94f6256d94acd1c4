package rsock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lwio/internal/test/skip"
)

// postgres starts Debian's PostgreSQL with a database of its own, as an unprivileged user if
// the test runs as root, and returns the path of its socket.
func postgres(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		skip.Test(t, "postgresql is not installed")
	}
	bin := filepath.Dir(found[len(found)-1])
	// The name of the socket must be short, and another user must have access to it.
	dir, err := os.MkdirTemp("/tmp", "lwio-postgres-") //nolint:usetesting // its name would be too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: unprivileged(t, dir)}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	var log bytes.Buffer
	cmd := run("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("postgres: %s", log.String())
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgx.Connect(t.Context(), "user=postgres host="+dir)
		if err == nil {
			c.Close(t.Context())
			return filepath.Join(dir, ".s.PGSQL.5432")
		}
		if time.Now().After(end) {
			t.Fatalf("postgres does not start: %v", err)
		}
	}
}

// unprivileged makes an unprivileged user the owner of dir, and returns the credentials for the
// database: nil if this user is not root.
func unprivileged(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2, os.Chown(dir, uid, gid)); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// TestPostgresThroughProxies runs pgx through a pair of 'lwio proxy' with RDMA between them,
// one beside the client and one beside the database.
func TestPostgresThroughProxies(t *testing.T) {
	socket, command := postgres(t), buildCommand(t)
	onAll(t, func(t *testing.T, l *link) {
		const clients = 4
		far := startProxy(t, command, "--listen", "rsock://127.0.0.1:0", "--to", "unix://"+socket,
			"--provider", l.provider, "--require-rdma")
		near := startProxy(t, command, "--listen", "tcp://127.0.0.1:0", "--to", far.at,
			"--provider", l.provider, "--require-rdma")
		url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", strings.TrimPrefix(near.at, "tcp://"))
		var wg sync.WaitGroup
		errs := make([]error, clients)
		for i := range errs {
			wg.Go(func() { errs[i] = work(l.ctx(), url, "of_"+l.provider+strconv.Itoa(i)) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		near.end()
		far.end()
		out, in := near.connections("over", l.provider), far.connections("by", l.provider)
		if out < clients || in != out {
			t.Errorf("of %d connections, %d left one proxy and %d reached the other by %s", clients, out, in, l.provider)
		}
		l.made.Add(int64(out))
	})
}

// work makes a table, fills it by COPY and by statements, reads it, and causes an error in
// between that the connection survives.
func work(ctx context.Context, url, table string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(ctx, "create table "+table+" (id int primary key, body bytea)"); err != nil {
		return err
	}
	const small, large = 2000, 1 << 20
	body := bytes.Repeat([]byte("rdma"), large/4)
	var rows [][]any
	for i := range small {
		rows = append(rows, []any{i, body[:i]})
	}
	if n, err := c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "body"}, pgx.CopyFromRows(rows)); n != small || err != nil {
		return fmt.Errorf("copy of %d rows: %w", n, err)
	}
	if _, err := c.Exec(ctx, "insert into "+table+" values ($1, $2)", small, body); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "insert into "+table+" values ($1, $2)", small, body); err == nil {
		return errors.New("the same key twice")
	}
	var sum int64
	var back []byte
	if err := c.QueryRow(ctx, "select sum(length(body)) from "+table).Scan(&sum); err != nil {
		return err
	}
	if err := c.QueryRow(ctx, "select body from "+table+" where id = $1", small).Scan(&back); err != nil {
		return err
	}
	if want := int64(small*(small-1)/2 + large); sum != want || !bytes.Equal(back, body) {
		return fmt.Errorf("%d bytes are there, want %d; %d come back", sum, want, len(back))
	}
	return nil
}
