package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/sockets"
	"lwio/internal/host"
	"lwio/vfs"
)

// remark is a line of the report of serve --check.
type remark struct {
	Severity string `json:"severity"` // error or warning
	// File, Line and Key are the place: of a configuration file, or of the command line without File.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// report is the result of serve --check.
type report struct {
	OK      bool     `json:"ok"`
	Remarks []remark `json:"remarks"`
}

// errMistakes ends serve --check; the report has the mistakes.
var errMistakes = errors.New("serve --check: there are mistakes")

// checkServe reports the mistakes of all that serve reads, without listening, and without making or changing a file.
func (a *app) checkServe(o *serveOptions, args []string) error {
	r := report{Remarks: []remark{}}
	if err := a.configure(o); err != nil {
		r.errors(err)
	}
	if o.configFile == "" || o.file != nil {
		r.errors(a.checkFiles(o, args, slog.New(&r)))
	}
	r.OK = true
	for _, m := range r.Remarks {
		r.OK = r.OK && m.Severity != "error"
	}
	err := a.printReport(&r, o.asJSON)
	if err == nil && !r.OK {
		err = errMistakes
	}
	return err
}

// checkFiles checks users, keys, shares, providers, state and audit log, and logs warnings.
func (a *app) checkFiles(o *serveOptions, args []string, log *slog.Logger) error {
	var all []error
	if _, err := o.serverConfig(a.providersOn(nil)); err != nil {
		all = append(all, err)
	}
	if err := checkState(o.State); err != nil {
		all = append(all, o.file.MistakeAt(err, o.given, "state"))
	}
	if err := checkAudit(o.Audit); err != nil {
		all = append(all, o.file.MistakeAt(err, o.given, "audit"))
	}
	var set sockets.Set
	defer set.Close()
	s, err := a.served(*o, args, &set, log)
	if err != nil {
		return errors.Join(append(all, err)...)
	}
	served, err := rootsOf(s.shares)
	if err == nil {
		err = served.checkApart(o.ownFiles(a.passwordFile))
	}
	all = append(all, err)
	files, err := vfs.New(vfs.Config{Shares: s.shares, Logger: log})
	if err != nil {
		closeShares(s.shares)
		return errors.Join(append(all, err)...)
	}
	return errors.Join(append(all, files.Close())...)
}

// checkState checks the directory of the state, which need not exist.
func checkState(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return checkParent(dir)
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := host.CheckPrivate(info); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return checkWritable(dir)
}

// checkAudit checks the file of the audit log, which need not exist.
func checkAudit(name string) error {
	if name == "" || name == "-" {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(name)
		if _, err := os.Stat(dir); err != nil {
			return err
		}
		return checkWritable(dir)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", name)
	}
	return checkWritable(name)
}

// checkParent checks that the nearest directory above a name that exists can get it.
func checkParent(name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		}
		return checkWritable(dir)
	}
}

// errors adds errors to the report.
func (r *report) errors(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the result of errors.Join
		for _, e := range joined.Unwrap() {
			r.errors(e)
		}
		return
	}
	m := remark{Severity: "error", Message: redacted(unprefixed(err.Error()))}
	var at *config.Mistake
	if errors.As(err, &at) {
		m.File, m.Line, m.Key, m.Message = at.File, at.Line, at.Key, redacted(unprefixed(at.Err.Error()))
	}
	r.Remarks = append(r.Remarks, m)
}

// Enabled takes warnings and errors of the log.
func (r *report) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle adds a line of the log to the report, as a warning.
func (r *report) Handle(_ context.Context, line slog.Record) error {
	text := line.Message
	line.Attrs(func(at slog.Attr) bool {
		text += fmt.Sprintf(", %s %s", at.Key, at.Value)
		return true
	})
	r.Remarks = append(r.Remarks, remark{Severity: "warning", Message: text})
	return nil
}

// WithAttrs returns the report itself: the checks have one logger.
func (r *report) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup returns the report itself: the checks have one logger.
func (r *report) WithGroup(string) slog.Handler { return r }

// printReport prints a line for each remark, or that there is none.
func (a *app) printReport(r *report, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, r)
	}
	if len(r.Remarks) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no mistake")
		return err
	}
	var b strings.Builder
	for _, m := range r.Remarks {
		at := config.Mistake{File: m.File, Line: m.Line, Key: m.Key, Err: errors.New(m.Message)}
		b.WriteString(m.Severity + ": " + printable(at.Error()) + "\n")
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
