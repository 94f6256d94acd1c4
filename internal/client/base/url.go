package base

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"lwio/internal/smb/smbwire"
)

// DefaultPort is the TCP port of a URL without one.
const DefaultPort = 4450

// Scheme is the scheme of LWIO URLs.
const Scheme = "lwio"

// Target has the fields of lwio.Target.
type Target struct {
	User, Password string
	HasPassword    bool
	Host           string
	Share          string
	Path           string
	Provider       string
	Completion     string

	RequireEncryption bool
	Kerberos          bool
	Connections       int
	AppInstance       string
}

// ParseURL parses lwio://[user[:password]@]host[:port]/share[/path][?key=value]. An error names the
// URL without its password.
func ParseURL(raw string) (*Target, error) {
	t, err := parseURL(raw)
	if err != nil {
		return nil, &Error{Op: "parse", Name: redactURL(raw), Err: err}
	}
	return t, nil
}

func parseURL(raw string) (*Target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, Scheme) {
		return nil, errors.New("a URL begins with " + Scheme + "://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	t := new(Target)
	if err := t.parseAuthority(authority); err != nil {
		return nil, err
	}
	if err := t.parsePath(path); err != nil {
		return nil, err
	}
	return t, t.parseQuery(query)
}

func (t *Target) parseAuthority(authority string) error {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, has := strings.Cut(authority[:i], ":")
		var err error
		if t.User, err = url.PathUnescape(user); err != nil {
			return errors.New("the user name has a percent sign that is not an encoding (%25 is a percent sign)")
		}
		if t.Password, err = url.PathUnescape(password); err != nil {
			return errors.New("the password has a percent sign that is not an encoding (%25 is a percent sign)")
		}
		t.HasPassword = has
		authority = authority[i+1:]
	}
	host, port := authority, strconv.Itoa(DefaultPort)
	if h, p, err := net.SplitHostPort(authority); err == nil {
		host, port = h, p
	} else {
		open, closed := strings.HasPrefix(host, "["), strings.HasSuffix(host, "]")
		if open != closed || strings.Contains(host, ":") && !open {
			return errors.New("an IPv6 address is written in brackets")
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("the port is not a number from 1 to 65535")
	}
	if host == "" || strings.ContainsFunc(host, notInHost) {
		return errors.New("no host name that could be looked up")
	}
	t.Host = net.JoinHostPort(host, port)
	return nil
}

// notInHost reports whether a character is in no host name or IP address.
func notInHost(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-._:", r):
		return false
	}
	return true
}

func (t *Target) parsePath(path string) error {
	var elems []string
	for i, typed := range strings.Split(path, "/") {
		e, err := url.PathUnescape(typed)
		if err != nil {
			return errors.New("the path has a percent sign that is not an encoding (%25 is a percent sign)")
		}
		switch {
		case strings.Contains(e, "/"):
			return errors.New("a name cannot hold a slash")
		case i == 0:
			t.Share = e
			if e == "" {
				return errors.New("no share: write " + Scheme + "://host/share")
			}
		case e != "" && e != ".":
			elems = append(elems, e)
		}
	}
	if err := smbwire.CheckElement(t.Share); err != nil {
		return fmt.Errorf("share: %w", err)
	}
	t.Path = strings.Join(elems, "/")
	_, err := smbwire.CleanPath(t.Path)
	return err
}

func (t *Target) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the text behind the question mark is not of the form key=value")
	}
	for key, vs := range values {
		v := vs[len(vs)-1]
		switch key {
		case "provider":
			t.Provider = v
		case "completion":
			if _, ok := completionMode(v); !ok && v != "" {
				return errors.New("completion is adaptive, polling or interrupt")
			}
			t.Completion = v
		case "encryption":
			if v != "required" {
				return errors.New("encryption is required, or left out")
			}
			t.RequireEncryption = true
		case "auth":
			if v != "kerberos" {
				return errors.New("auth is kerberos, or left out")
			}
			t.Kerberos = true
		case "connections":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > maxConnections {
				return fmt.Errorf("connections is a number from 1 to %d", maxConnections)
			}
			t.Connections = n
		case "app":
			t.AppInstance = v
		default:
			return fmt.Errorf("unknown parameter %q: there are provider, completion, encryption, auth, connections and app", key)
		}
	}
	return nil
}

// String returns the URL, percent-encoded where necessary, with xxxxx in place of a password.
func (t *Target) String() string {
	u := url.URL{Scheme: Scheme, Host: t.Host, Path: "/" + t.Share}
	if t.Path != "" {
		u.Path += "/" + t.Path
	}
	switch {
	case t.HasPassword:
		u.User = url.UserPassword(t.User, "xxxxx")
	case t.User != "":
		u.User = url.User(t.User)
	}
	q := url.Values{}
	if t.Provider != "" {
		q.Set("provider", t.Provider)
	}
	if t.Completion != "" {
		q.Set("completion", t.Completion)
	}
	if t.RequireEncryption {
		q.Set("encryption", "required")
	}
	if t.Kerberos {
		q.Set("auth", "kerberos")
	}
	if t.Connections != 0 {
		q.Set("connections", strconv.Itoa(t.Connections))
	}
	if t.AppInstance != "" {
		q.Set("app", t.AppInstance)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// redactURL cuts everything between the scheme and the last @ of the authority.
func redactURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "", raw
	} else {
		scheme += "://"
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	// A slash or a question mark typed as it is in a password ends the authority
	// early, so the @ is looked for in all of the rest.
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return raw
	}
	if at > end && !strings.Contains(rest[:end], ":") {
		return raw
	}
	return scheme + "xxxxx@" + rest[at+1:]
}
