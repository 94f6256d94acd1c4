package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/secret"
	"lwio/cmd/lwio/internal/systemd"
	"lwio/cmd/lwio/internal/userfile"
	"lwio/kerberos"
	"lwio/server"
)

// reloader applies changes of the files of users, rights and keys, and of some settings, to a running server.
type reloader struct {
	access *authority
	// users is the path of the file of users; user is the only user, whose password the file has,
	// or "".
	users, user string
	// options are the settings in effect. A setting that needs a restart keeps its value of the start.
	options serveOptions
	roots   roots // directories of the shares
	// kerberos has the keys of the keytab; nil without one.
	kerberos *kerberos.Server
	audit    *auditFile // nil without an audit log of its own
	level    *slog.LevelVar
	server   *server.Server
	log      *slog.Logger
	// supervisor learns of each reload; nil without one.
	supervisor *systemd.Supervisor
}

// start reloads at each SIGHUP, until ctx ends or stop is called. stop waits for reloads in progress.
func (r *reloader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				r.report((*systemd.Supervisor).Reloading)
				r.reload()
				r.report((*systemd.Supervisor).Ready)
				done.Go(r.server.Reauthorize) // a file system that does not answer delays its end, and no other reload
			}
		}
	})
	return func() {
		signal.Stop(hangups)
		cancel()
		done.Wait()
	}
}

// report notifies the supervisor.
func (r *reloader) report(notify func(*systemd.Supervisor) error) {
	if r.supervisor == nil {
		return
	}
	if err := notify(r.supervisor); err != nil {
		r.log.Warn("reload: the supervisor is not notified", "error", err)
	}
}

// reload reads the files again. A configuration with an error changes nothing, and does not keep the file of users
// from taking effect: the removal of a user must not fail because of a mistake in the configuration.
func (r *reloader) reload() {
	if err := r.reloadConfig(); err != nil {
		for _, text := range messages(err) {
			r.log.Error("reload: settings and rights are unchanged", "error", text)
		}
	}
	if r.audit != nil {
		if err := r.audit.reopen(r.options.Audit); err != nil {
			r.log.Error("reload: the audit log keeps its file", "error", err)
		}
	}
	if r.kerberos != nil {
		if err := r.takeKeytab(r.options.Keytab); err != nil {
			r.log.Error("reload: the keys of the keytab are unchanged", "error", err)
		}
	}
	users, err := readUsers(r.users, r.user)
	if err != nil {
		r.log.Error("reload: the users are unchanged", "error", err)
	} else {
		c := r.access.setUsers(users)
		r.log.Log(context.Background(), server.LevelAudit, "users", "added", c.added, "removed", c.removed, "changed", c.changed)
		warnPlain(r.log, r.users, users)
	}
}

// takeKeytab takes the keys of a keytab. After an error the old keys stay.
func (r *reloader) takeKeytab(name string) error {
	content, err := secret.ReadFile(name)
	if err != nil {
		return err
	}
	return r.kerberos.SetKeytab(content)
}

// reloadConfig takes the settings and rights of the configuration file that can change, and its file of users. It
// logs the others that have changed.
func (r *reloader) reloadConfig() error {
	o := &r.options
	if o.configFile == "" {
		return nil
	}
	next, err := config.Read(o.configFile)
	if err != nil {
		return err
	}
	settings, err := next.Apply(o.flags, o.given)
	if err == nil {
		err = next.Check(&settings, o.given)
	}
	if err == nil {
		err = r.roots.checkApart(map[string]string{usersKey: next.Users, "keytab": settings.Keytab, "audit": settings.Audit})
	}
	if err != nil {
		return err
	}
	if keys, err := r.change(&settings); err != nil {
		return err
	} else if len(keys) > 0 {
		r.log.Warn("reload: keys have changed that need a restart of the server", "keys", keys)
	}
	r.warnShares(next)
	r.users = next.Users
	r.access.setRights(rightsOf(next, o.ReadOnly))
	r.log.Log(context.Background(), server.LevelAudit, "rights", "configuration", o.configFile)
	return nil
}

// changers change the settings that can change while the server runs, in this order. A changer that can fail comes before
// those that cannot. A changer reports false if the change needs a restart.
var changers = []struct {
	key    string
	change func(r *reloader, next *config.Options) (bool, error)
}{
	{"keytab", func(r *reloader, next *config.Options) (bool, error) {
		if r.kerberos == nil || next.Keytab == "" {
			return false, nil
		}
		if err := r.takeKeytab(next.Keytab); err != nil {
			return false, fmt.Errorf("keytab: %w", err)
		}
		r.options.Keytab = next.Keytab
		return true, nil
	}},
	{"audit", func(r *reloader, next *config.Options) (bool, error) {
		if r.audit == nil || next.Audit == "" || next.Audit == "-" {
			return false, nil
		}
		if err := r.audit.reopen(next.Audit); err != nil {
			return false, err
		}
		r.options.Audit = next.Audit
		return true, nil
	}},
	{"verbose", func(r *reloader, next *config.Options) (bool, error) {
		r.options.Verbose = next.Verbose
		r.level.Set(levelOf(next.Verbose))
		return true, nil
	}},
	{"read-only", func(r *reloader, next *config.Options) (bool, error) {
		r.options.ReadOnly = next.ReadOnly // the rights follow
		return true, nil
	}},
}

// change applies the changes of settings, and returns the keys of those that need a restart. An error of the audit
// log leaves the new keytab, which is as good as the old one, in use.
func (r *reloader) change(next *config.Options) (restart []string, err error) {
	changed := config.Changed(&r.options.Options, next)
	for _, c := range changers {
		i := slices.Index(changed, c.key)
		if i < 0 {
			continue
		}
		done, err := c.change(r, next)
		if err != nil {
			return nil, err
		}
		if done {
			changed = slices.Delete(changed, i, i+1)
		}
	}
	return changed, nil
}

// warnShares warns of changes of shares that need a restart.
func (r *reloader) warnShares(next *config.File) {
	known := make(map[string]config.Share)
	for _, s := range r.options.file.Shares {
		known[s.Name] = s
	}
	for _, s := range next.Shares {
		if old, ok := known[s.Name]; !ok || old.Path != s.Path || old.Encryption != s.Encryption {
			r.log.Warn("reload: a share is new, or has another path or encryption, which needs a restart of the server", "share", s.Name)
		}
		delete(known, s.Name)
	}
	for name := range known {
		r.log.Warn("reload: a share is no longer in the configuration; no user may use it", "share", name)
	}
}

// rightsOf returns the rights of each share of a configuration; none has a right to write with readOnly.
func rightsOf(f *config.File, readOnly bool) map[string]config.Rights {
	rights := make(map[string]config.Rights)
	for _, s := range f.Shares {
		s.ReadOnly = s.ReadOnly || readOnly
		rights[s.Name] = s.Rights()
	}
	return rights
}

// warnPlain warns of passwords in a file of users.
func warnPlain(log *slog.Logger, name string, users *userfile.File) {
	plain := 0
	for _, u := range users.Users() {
		if u.Plain {
			plain++
		}
	}
	if plain > 0 {
		log.Warn("the file of users has plain passwords; 'lwio user passwd' makes hashes of all of them", "file", name, "users", plain)
	}
}

// warnUnknown warns of users of the rights that do not exist.
func warnUnknown(log *slog.Logger, f *config.File, users *userfile.File) {
	for _, s := range f.Shares {
		for _, name := range s.Users() {
			if !users.Has(name) {
				log.Warn("the rights name a user that does not exist", "share", s.Name, "user", name)
			}
		}
	}
}
