package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
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
// that it makes is kept in set. After an error no directory is open.
func (a *app) served(o serveOptions, args []string, set *sockets.Set, log *slog.Logger) (*service, error) {
	s := new(service)
	var err error
	if s.kerberos, err = kerberosServer(&o.Options); err != nil {
		err = o.file.MistakeAt(err, o.given, "keytab")
	}
	if o.file != nil {
		err = errors.Join(err, s.configure(o, log))
	} else {
		err = errors.Join(err, s.commandLine(a, o, args, set, log))
	}
	if err != nil {
		closeShares(s.shares)
		return nil, err
	}
	return s, nil
}

// commandLine takes users and shares from the command line.
func (s *service) commandLine(a *app, o serveOptions, args []string, set *sockets.Set, log *slog.Logger) error {
	users, err := s.credentials(a, o, set)
	if err != nil {
		return err
	}
	s.access = newAuthority(users, nil)
	if a.passwordFile != "" {
		if o.user == "" {
			warnPlain(log, a.passwordFile, users)
		}
		s.reload = &reloader{access: s.access, users: a.passwordFile, user: o.user, kerberos: s.kerberos, options: o, log: log}
	}
	s.shares, err = openShares(args, o.ReadOnly)
	return err
}

// configure takes users and shares from the configuration file.
//
// Errors: all of them, joined.
func (s *service) configure(o serveOptions, log *slog.Logger) error {
	f := o.file
	users, err := userfile.Read(f.Users)
	if err == nil && len(users.Users()) == 0 {
		err = fmt.Errorf("read users: %s: %w", f.Users, errNoUser)
	}
	var all []error
	if err != nil {
		all = append(all, f.UsersMistake(err))
	} else {
		warnPlain(log, f.Users, users)
		warnUnknown(log, f, users)
		s.access = newAuthority(users, rightsOf(f, o.ReadOnly))
	}
	s.reload = &reloader{access: s.access, users: f.Users, kerberos: s.kerberos, options: o, log: log}
	for i, c := range f.Shares {
		backend, err := posix.OpenDir(c.Path)
		if err != nil {
			all = append(all, f.ShareMistake(i, fmt.Errorf("serve %s: %w", c.Path, err)))
			continue
		}
		s.shares = append(s.shares, vfs.Share{
			Name: c.Name, Backend: backend, Rights: s.access.rightsOn(c.Name), RequireEncryption: c.Encryption.Required(),
		})
	}
	return errors.Join(all...)
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
	if err := loopbackOnly("--listen", o.Listen); err != nil {
		return nil, err
	}
	for _, at := range o.RDMAListen {
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
	if !config.IsLoopback(listen) {
		return usagef("%s %s: an address that is not loopback needs a --password-file or a --config", flag, listen)
	}
	return nil
}
