package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"lwio/internal/ratelimit"
	"lwio/server"
)

// auditHandler sends the lines of the audit log to a handler of their own, and all other lines to
// rest. Without audit it drops the lines of the audit log.
type auditHandler struct {
	audit, rest slog.Handler
}

// of returns the handler of a level; nil drops the line.
func (h auditHandler) of(level slog.Level) slog.Handler {
	if level == server.LevelAudit {
		return h.audit
	}
	return h.rest
}

// Enabled reports whether the handler of the level takes it.
func (h auditHandler) Enabled(ctx context.Context, level slog.Level) bool {
	to := h.of(level)
	return to != nil && to.Enabled(ctx, level)
}

// Handle passes a record to the handler of its level.
func (h auditHandler) Handle(ctx context.Context, r slog.Record) error {
	if to := h.of(r.Level); to != nil {
		return to.Handle(ctx, r)
	}
	return nil
}

// WithAttrs returns a handler that adds the attributes to the records of both handlers.
func (h auditHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup returns a handler that opens the group in the records of both handlers.
func (h auditHandler) WithGroup(name string) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h auditHandler) with(change func(slog.Handler) slog.Handler) slog.Handler {
	h.rest = change(h.rest)
	if h.audit != nil {
		h.audit = change(h.audit)
	}
	return h
}

// auditLogger returns a logger whose audit log is JSON on w, and whose other lines go to rest.
func auditLogger(w io.Writer, rest slog.Handler) *slog.Logger {
	if w == nil {
		return slog.New(auditHandler{rest: rest})
	}
	return slog.New(auditHandler{rest: rest, audit: slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: server.LevelAudit,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.LevelKey {
				return slog.String(slog.LevelKey, "AUDIT")
			}
			return attr
		},
	})})
}

// serveLog is the log of a server.
type serveLog struct {
	*slog.Logger
	level *slog.LevelVar // of the lines that are not of the audit log
}

// serveLogger returns the logger of a server. audit is the file of the audit log; "" is no audit log,
// and "-" the standard error. The caller opens the file with reopen before the first line of the audit log.
func (a *app) serveLogger(audit string) (serveLog, *auditFile) {
	level := new(slog.LevelVar)
	level.Set(levelOf(a.settings.Verbose))
	rest := slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})
	switch audit {
	case "":
		return serveLog{auditLogger(nil, rest), level}, nil
	case "-":
		return serveLog{auditLogger(a.stderr, rest), level}, nil
	}
	f := &auditFile{name: audit, log: slog.New(rest)}
	return serveLog{auditLogger(f, rest), level}, f
}

// levelOf returns the least level that a server logs.
func levelOf(verbose bool) slog.Level {
	if verbose {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// auditFile is the file of the audit log, with mode 0600. It is only appended to. Safe for concurrent
// use.
type auditFile struct {
	log   *slog.Logger // of failed writes
	noise ratelimit.Log

	mu   sync.Mutex
	name string
	f    *os.File
}

// reopen opens a file, or makes it: at first, again after another program has renamed the old one, and under
// another name. After an error the old file stays in use.
func (a *auditFile) reopen(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.f != nil {
		a.f.Close()
	}
	a.f, a.name = f, name
	return nil
}

// Write appends a line. A failure goes to the ordinary log, once a second at most.
func (a *auditFile) Write(p []byte) (int, error) {
	a.mu.Lock()
	n, err := a.f.Write(p)
	a.mu.Unlock()
	if err != nil {
		a.noise.Warn(a.log, "audit log: lines are lost", "error", err)
	}
	return n, err
}

// close closes the file.
func (a *auditFile) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
