package smbserver

import (
	"context"
	"fmt"
	"log/slog"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// AuditLevel is the level of the audit log: logons and their ends, tree connects, opens,
// renames, deletes and other changes of files, and the refusals of all of these. Each line has
// the address of the client; each line of a session has its user. The message is the event,
// one of a fixed set.
const AuditLevel = slog.LevelDebug + 2

// audited reports whether the audit log is on.
func (c *conn) audited() bool { return c.log.Enabled(context.Background(), AuditLevel) }

// audit logs an event of the session.
func (s *Session) audit(event string, attrs ...slog.Attr) {
	if !s.conn.audited() {
		return
	}
	attrs = append(attrs, slog.String("user", s.user), slog.String("session", fmt.Sprintf("%016x", s.id)))
	s.conn.log.LogAttrs(context.Background(), AuditLevel, event, attrs...)
}

// auditRefusedLogon logs a refused logon. Logons that no other limit bounds have at most one line a
// second.
func (r *request) auditRefusedLogon(user, domain string, err error, bounded bool) {
	const event = "logon refused"
	c := r.conn
	switch {
	case !c.audited():
	case bounded:
		c.log.Log(context.Background(), AuditLevel, event, "user", user, "domain", domain, "error", err)
	default:
		c.srv.auditLog.Log(c.log, AuditLevel, event, "user", user, "domain", domain, "error", err)
	}
}

// auditConnect logs a tree connect to a share.
func (r *request) auditConnect(share string, rights vfs.Rights, err error) {
	if err != nil {
		r.session.audit("connect refused", slog.String("share", share), slog.Any("error", err))
		return
	}
	r.session.audit("connect", slog.String("share", share), slog.String("rights", rights.String()))
}

// auditOpen logs an open, and a refused open if the access was denied.
func (r *request) auditOpen(path string, q *smbwire.CreateRequest, file *vfs.Open, action vfs.Action, err error) {
	if !r.conn.audited() || err != nil && !denied(statusOf(err)) {
		return
	}
	attrs := []slog.Attr{slog.String("share", r.tree.share.Name), slog.String("path", path)}
	if err != nil {
		attrs = append(attrs, slog.String("access", accessText(q.DesiredAccess)), slog.Any("error", err))
		r.session.audit("open refused", attrs...)
		return
	}
	attrs = append(attrs, slog.String("access", accessText(uint32(file.Granted()))), slog.String("action", actionText(action)),
		slog.Bool("delete_on_close", vfs.Options(q.CreateOptions)&vfs.DeleteOnClose != 0))
	r.session.audit("open", attrs...)
}

// auditChange logs a change of the information about a file: path is its path before. It logs a
// refused change if the access was denied.
func (r *request) auditChange(f *vfs.Open, path string, class smbwire.FileClass, st ntstatus.Status) {
	if !r.conn.audited() || st != ntstatus.Success && !denied(st) {
		return
	}
	attrs := []slog.Attr{slog.String("share", f.Share().Name), slog.String("path", path)}
	event := "change"
	switch class {
	case smbwire.ClassRename, smbwire.ClassRenameEx:
		event = "rename"
		if st == ntstatus.Success {
			attrs = append(attrs, slog.String("to", f.Path()))
		}
	case smbwire.ClassDisposition, smbwire.ClassDispositionEx:
		event = "delete"
		if info, err := f.Stat(); err == nil && st == ntstatus.Success {
			attrs = append(attrs, slog.Bool("pending", info.DeletePending))
		}
	default:
		attrs = append(attrs, slog.String("class", fmt.Sprint(uint8(class))))
	}
	if st != ntstatus.Success {
		event += " refused"
		attrs = append(attrs, slog.String("status", st.Error()))
	}
	r.session.audit(event, attrs...)
}

// denied reports whether a status refuses access.
func denied(st ntstatus.Status) bool {
	switch st {
	case ntstatus.AccessDenied, ntstatus.PrivilegeNotHeld, ntstatus.CannotDelete:
		return true
	default:
		return false
	}
}

// accessText is an access mask as documentation writes it.
func accessText(mask uint32) string { return fmt.Sprintf("%#x", mask) }

// actionText names the effect of an open.
func actionText(a vfs.Action) string {
	switch a {
	case vfs.Superseded:
		return "superseded"
	case vfs.Created:
		return "created"
	case vfs.Overwritten:
		return "overwritten"
	default:
		return "opened"
	}
}
