package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/secret"
	"lwio/cmd/lwio/internal/systemd"
	"lwio/cmd/lwio/internal/userfile"
	"lwio/kerberos"
	"lwio/server"
)

// reloader applies changes of the files of users, rights and keys to a running server.
type reloader struct {
	access *authority
	// users is the path of the file of users; user is the only user, whose password the file has,
	// or "".
	users, user string
	// config is the path of the configuration file, or "".
	config string
	// served is the configuration at the start, and roots are the directories of its shares.
	served *config.File
	roots  roots
	// kerberos has the keys of the keytab; nil without one.
	kerberos *kerberos.Server
	keytab   string
	audit    *auditFile // nil without an audit log of its own
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

// reload reads the files again. A file with an error changes nothing, and does not keep the other one
// from taking effect: the removal of a user must not fail because of a mistake in the configuration.
func (r *reloader) reload() {
	if r.audit != nil {
		if err := r.audit.reopen(); err != nil {
			r.log.Error("reload: the audit log keeps its file", "error", err)
		}
	}
	if err := r.reloadRights(); err != nil {
		for _, text := range messages(err) {
			r.log.Error("reload: the rights are unchanged", "error", text)
		}
	}
	if err := r.reloadKeytab(); err != nil {
		r.log.Error("reload: the keys of the keytab are unchanged", "error", err)
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

// reloadKeytab takes the keys of the keytab.
func (r *reloader) reloadKeytab() error {
	if r.kerberos == nil {
		return nil
	}
	content, err := secret.ReadFile(r.keytab)
	if err != nil {
		return err
	}
	return r.kerberos.SetKeytab(content)
}

// reloadRights takes the rights of the configuration file, and its file of users. Changes of other
// settings need a restart.
func (r *reloader) reloadRights() error {
	if r.config == "" {
		return nil
	}
	next, err := config.Read(r.config)
	if err != nil {
		return err
	}
	if err := r.roots.checkApart(map[string]string{usersKey: next.Users}); err != nil {
		return err
	}
	if keys := r.served.Restart(&next.Flags); len(keys) > 0 {
		r.log.Warn("reload: keys have changed that need a restart of the server", "keys", keys)
	}
	known := make(map[string]config.Share)
	for _, s := range r.served.Shares {
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
	r.users = next.Users
	r.access.setRights(rightsOf(next))
	r.log.Log(context.Background(), server.LevelAudit, "rights", "configuration", r.config)
	return nil
}

// rightsOf returns the rights of each share of a configuration.
func rightsOf(f *config.File) map[string]config.Rights {
	rights := make(map[string]config.Rights)
	for _, s := range f.Shares {
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
