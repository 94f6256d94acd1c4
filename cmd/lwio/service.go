package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/sockets"
	"lwio/cmd/lwio/internal/userfile"
	"lwio/kerberos"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// service has the shares of a server and their users.
type service struct {
	access *authority
	shown  *url.Userinfo // the part of the printed URLs
	shares []vfs.Share
	reload *reloader // nil if no file has users, rights or keys

	kerberos *kerberos.Server // nil without a keytab
}

// served returns the service of the command line or, if it is not nil, of the configuration file. A password
// that it makes is kept in set.
func (a *app) served(o serveOptions, args []string, set *sockets.Set, log *slog.Logger) (*service, error) {
	s := new(service)
	var err error
	if s.kerberos, err = o.kerberos.server(); err != nil {
		return nil, err
	}
	if o.file != nil {
		return s, s.configure(o, o.file, log)
	}
	users, err := s.credentials(a, o, set)
	if err != nil {
		return nil, err
	}
	s.access = newAuthority(users, nil)
	if a.passwordFile != "" {
		if o.user == "" {
			warnPlain(log, a.passwordFile, users)
		}
		s.reload = &reloader{access: s.access, users: a.passwordFile, user: o.user, kerberos: s.kerberos, keytab: o.kerberos.keytab, log: log}
	}
	s.shares, err = openShares(args, o.readOnly)
	return s, err
}

// configure takes the service from the configuration file.
func (s *service) configure(o serveOptions, f *config.File, log *slog.Logger) error {
	users, err := userfile.Read(f.Users)
	if err != nil {
		return err
	}
	if len(users.Users()) == 0 {
		return fmt.Errorf("read users: %s: %w", f.Users, errNoUser)
	}
	warnPlain(log, f.Users, users)
	warnUnknown(log, f, users)
	s.access = newAuthority(users, rightsOf(f))
	s.reload = &reloader{access: s.access, users: f.Users, config: o.config, served: f, kerberos: s.kerberos, keytab: o.kerberos.keytab, log: log}
	for _, c := range f.Shares {
		backend, err := posix.OpenDir(c.Path)
		if err != nil {
			closeShares(s.shares)
			return fmt.Errorf("serve %s: %w", c.Path, err)
		}
		s.shares = append(s.shares, vfs.Share{
			Name: c.Name, Backend: backend, ReadOnly: o.readOnly, Rights: s.access.rightsOn(c.Name),
			RequireEncryption: c.Encryption.Required(),
		})
	}
	return nil
}

// credentials returns the users of the password file; without a file, one user with a password for this
// run, and for the processes that take over from it.
func (s *service) credentials(a *app, o serveOptions, set *sockets.Set) (*userfile.File, error) {
	if a.passwordFile != "" {
		users, err := readUsers(a.passwordFile, o.user)
		switch {
		case err != nil:
			return nil, err
		case len(users.Users()) == 0:
			return nil, fmt.Errorf("read users: %s: %w", a.passwordFile, errNoUser)
		case o.user != "":
			s.shown = url.User(o.user)
		}
		return users, nil
	}
	if err := loopbackOnly("--listen", o.listen); err != nil {
		return nil, err
	}
	for _, at := range o.rdmaListen {
		if err := loopbackOnly("--rdma-listen", at); err != nil {
			return nil, err
		}
	}
	password, err := set.Secret("credential", oneTimePassword)
	if err != nil {
		return nil, err
	}
	user := cmp.Or(o.user, "lwio")
	s.shown = url.UserPassword(user, password)
	return oneUser(user, password)
}

// loopbackOnly refuses other addresses for a server whose password is printed.
func loopbackOnly(flag, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("%s %s: %w", flag, listen, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("%s %s: an address that is not loopback needs a --password-file or a --config", flag, listen)
	}
	return nil
}
