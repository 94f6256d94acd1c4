package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/term"

	"lwio"
	"lwio/cmd/lwio/internal/secret"
)

// logon finds users, passwords and tickets: on the command line, in the environment, in the credentials
// file, in the credential cache of Kerberos, and at the terminal.
type logon struct {
	stdin        io.Reader
	stderr       io.Writer
	env          func(string) string
	passwordFile string // of the command line; "" for none
}

// logon returns the logon of this run.
func (a *app) logon() logon { return logon{a.stdin, a.stderr, a.env, a.passwordFile} }

// identity is the evidence with which a client logs on. User and password are empty if the URL has them.
type identity struct {
	user, password string
	tickets        lwio.KerberosClient // nil for NTLM
}

// identity finds the identity for a URL.
func (l logon) identity(ctx context.Context, t *lwio.Target) (id identity, err error) {
	if id.user, id.password, err = l.credentials(ctx, t); err == nil {
		id.tickets, err = l.kerberosClient(t)
	}
	return id, err
}

// credentials finds user and password for a URL. Each is empty if the URL has it. The password of the
// command line or the environment has precedence over the one of the credentials file.
func (l logon) credentials(ctx context.Context, t *lwio.Target) (user, password string, err error) {
	if t.HasPassword && t.User != "" {
		return "", "", nil
	}
	password, given, err := l.givenPassword()
	if err != nil || t.Kerberos { // without a password, with the credential cache
		return "", password, err
	}
	if t.User != "" && given {
		return "", password, nil
	}
	stored, err := l.storedCredentials(t)
	switch {
	case err != nil:
		return "", "", err
	case stored == nil && t.User == "":
		return "", "", usagef("no user in %s: put it before the host, as in lwio://USER@HOST:PORT/SHARE", t)
	case stored == nil:
		password, err = l.askedPassword(ctx, t)
		return "", password, err
	case t.User == "":
		user = stored.user
	}
	if !given {
		password = stored.password
	}
	return user, password, nil
}

// askedPassword asks for the password on a terminal.
func (l logon) askedPassword(ctx context.Context, t *lwio.Target) (string, error) {
	f, ok := l.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", usagef("no password for %s: put it in %s, in LWIO_PASSWORD_FILE, in LWIO_PASSWORD, or in a --password-file", t, credentialsName)
	}
	fmt.Fprintf(l.stderr, "Password for %s: ", t)
	defer fmt.Fprintln(l.stderr)
	return askPassword(ctx, int(f.Fd()))
}

// givenPassword is the password of the flag or of the environment. ok is false without one.
func (l logon) givenPassword() (password string, ok bool, err error) {
	switch {
	case l.passwordFile != "":
		password, err = readPassword(l.passwordFile)
	case l.env("LWIO_PASSWORD_FILE") != "":
		password, err = readPassword(l.env("LWIO_PASSWORD_FILE"))
	default:
		password = l.env("LWIO_PASSWORD")
	}
	return password, password != "", err
}

// credentialsName is the credentials file in the home directory.
const credentialsName = "~/.config/lwio/credentials"

// credentialsPath returns the path of the credentials file; "" without a home directory.
func (l logon) credentialsPath() string {
	dir := l.env("XDG_CONFIG_HOME")
	if home := l.env("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "lwio", "credentials")
}

// credential is a line of the credentials file.
type credential struct{ user, password, host string }

// storedCredentials returns the first line of the credentials file for the server of a URL and, if the
// URL names one, for its user; nil without one.
func (l logon) storedCredentials(t *lwio.Target) (*credential, error) {
	name := l.credentialsPath()
	if name == "" {
		return nil, nil
	}
	lines, err := secret.ReadLines(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parseCredential(line)
		if err != nil {
			return nil, fmt.Errorf("read credentials: %s: line %d: %w", name, i+1, err)
		}
		if strings.EqualFold(c.host, t.Host) && (t.User == "" || t.User == c.user) {
			return c, nil
		}
	}
	return nil, nil
}

// parseCredential makes a credential of a line: lwio://USER:PASSWORD@HOST[:PORT]. An error has no part
// of the line.
func parseCredential(line string) (*credential, error) {
	u, err := url.Parse(line)
	if err != nil || u.Scheme != lwio.Scheme || u.User == nil || u.Hostname() == "" {
		return nil, errors.New("not of the form lwio://USER:PASSWORD@HOST:PORT, percent-encoded")
	}
	password, _ := u.User.Password()
	if u.User.Username() == "" || password == "" {
		return nil, errors.New("no user or no password")
	}
	port := u.Port()
	if port == "" {
		port = strconv.Itoa(lwio.DefaultPort)
	}
	return &credential{u.User.Username(), password, net.JoinHostPort(u.Hostname(), port)}, nil
}
