package smbserver

import (
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// Refused create options, and undefined bits.
//
// Source: [MS-SMB2 2.2.13], [MS-SMB2 3.3.5.9]
const (
	optionOpenByFileID    = 0x00002000
	optionReserveOpfilter = 0x00100000
	optionsUndefined      = 0xFF000000
)

// maxImpersonation is the highest impersonation level, delegation.
const maxImpersonation = 3

// handleCreate serves CREATE of a file, directory or pipe.
//
// Source: [MS-SMB2 3.3.5.9]
func handleCreate(r *request, q smbwire.CreateRequest) ntstatus.Status {
	name, err := smbwire.DecodeUTF16(q.Name)
	if err != nil {
		return statusOf(err)
	}
	asked, st := durableContexts{}, ntstatus.Success
	if !r.tree.isPipe() {
		asked, st = r.durableContexts(q.Contexts)
	}
	switch {
	case st != ntstatus.Success:
		return st
	case asked.reconnect != nil: // the rest of the request does not matter
		return reclaim(r, asked.reconnect, &q)
	case q.ImpersonationLevel > maxImpersonation:
		return ntstatus.BadImpersonationLevel
	case q.CreateOptions&optionsUndefined != 0:
		return ntstatus.InvalidParameter
	case q.CreateOptions&(optionOpenByFileID|optionReserveOpfilter) != 0:
		return ntstatus.NotSupported
	case r.tree.isPipe():
		return createPipe(r, name)
	case strings.HasPrefix(name, `\`):
		return ntstatus.InvalidParameter
	}
	if st := refuseContexts(q.Contexts); st != ntstatus.Success {
		return st
	}
	path, ok := fromWire(name)
	if !ok {
		return ntstatus.ObjectNameInvalid
	}
	if asked.request != nil || asked.first {
		return createDurable(r, path, &q, &asked)
	}
	r.conn.srv.lineages.closeInstance(asked.app, r.session, r.tree.share, path)
	return createFile(r, path, &q, nil)
}

// createFile opens a file or directory. d is the durable open that the client asks for, or nil. A
// directory is never one.
func createFile(r *request, path string, q *smbwire.CreateRequest, d *durable) ntstatus.Status {
	t, id := r.conn.srv.lineages, r.conn.srv.openIDs.Add(1)
	whole := d == nil && asksWhole(q)
	if whole {
		if st := refuseWhole(q); st != ntstatus.Success {
			return st
		}
	}
	req := vfs.OpenRequest{
		Share: r.tree.share.Name, Path: path,
		Access: vfs.Access(q.DesiredAccess), ShareMode: vfs.ShareMode(q.ShareAccess),
		Disposition: vfs.Disposition(q.CreateDisposition), Options: vfs.Options(q.CreateOptions),
		Attributes: q.FileAttributes, Owner: r.session.lineage, User: r.session.user,
	}
	if d != nil && d.persistent {
		req.Creating = func(file vfs.Record) { t.kept.announce(d, r.session, id, file) }
		defer d.kept.dismiss(t.kept.state)
	}
	lease, err := r.leaseOf(q)
	if err != nil {
		return statusOf(err)
	}
	req.Lease = lease.vfs()
	var file *vfs.Open
	var action vfs.Action
	err = r.untilBroken(func(again bool) (err error) {
		req.Again = again
		file, action, err = r.conn.srv.cfg.FS.Open(req)
		return err
	})
	r.auditOpen(path, q, file, action, err)
	if err != nil {
		return statusOf(err)
	}
	info, err := file.Stat()
	if err == nil {
		o := &open{tree: r.tree, file: file, persistent: id, lease: lease}
		lease.made(o)
		if whole {
			err = beginWhole(r, o, action)
		}
		if !d.remembers(file) || !t.grant(d, r.session, o, action) {
			t.kept.noteClose(file)
		}
		if err == nil {
			st := r.session.handles.add(o, o.persistent)
			if st == ntstatus.Success {
				fileCreated(r, o, uint32(action), &info, q)
				return ntstatus.Success
			}
			err = st
		}
	}
	_ = file.Close() // the first error is the one to report
	return statusOf(err)
}

// fromWire turns backslashes into slashes. It reports false for a name with slashes.
func fromWire(name string) (path string, ok bool) {
	if strings.ContainsRune(name, '/') {
		return "", false
	}
	return strings.ReplaceAll(name, `\`, "/"), true
}

// refuseContexts refuses the contexts that must not be ignored: they ask for a version or attributes
// that do not exist.
//
// Source: [MS-SMB2 3.3.5.9.1], [MS-SMB2 3.3.5.9.4]
func refuseContexts(list []smbwire.CreateContext) ntstatus.Status {
	for _, x := range list {
		switch x.Name {
		case smbwire.CreateContextExtendedAttribute:
			return ntstatus.EAsNotSupported
		case smbwire.CreateContextTimewarp:
			return ntstatus.ObjectNameNotFound
		}
	}
	return ntstatus.Success
}

// created makes the response to CREATE. Related requests that follow use the open. size is
// the expected length of the body, in bytes.
//
// Source: [MS-SMB2 2.2.14]
func created(r *request, o *open, resp *smbwire.CreateResponse, size int) {
	resp.FileID = smbwire.FileID{Persistent: o.persistent, Volatile: o.id}
	r.compound.setFile(resp.FileID)
	r.resp.set(resp.AppendTo(r.resp.begin(size)))
}

// fileCreated makes the response for a file or directory, with the contexts asked for. A repeated CREATE that asks
// for a lower oplock than the first one gets that answer.
//
// Source: [MS-SMB2 3.3.5.9], [MS-SMB2 2.2.14]
func fileCreated(r *request, o *open, action uint32, info *vfs.FileInfo, q *smbwire.CreateRequest) {
	resp := smbwire.CreateResponse{
		OplockLevel: smbwire.OplockNone, CreateAction: action, FileTimes: fileTimes(info),
		AllocationSize: uint64(info.AllocationSize), EndOfFile: uint64(info.Size), FileAttributes: info.ReportedAttributes(),
	}
	for _, x := range q.Contexts {
		switch x.Name {
		case smbwire.CreateContextMaximalAccess:
			m := smbwire.MaximalAccess{Access: uint32(o.file.MaximalAccess())}
			resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: x.Name, Data: m.AppendTo(nil)})
		case smbwire.CreateContextQueryOnDiskID:
			d := smbwire.OnDiskID{FileID: info.ID, VolumeID: info.Device}
			resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: x.Name, Data: d.AppendTo(nil)})
		case smbwire.CreateContextWhole:
			if r.compound.whole {
				resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: x.Name})
			}
		case smbwire.CreateContextDurable:
			if d := o.durable; d != nil && d.first && d.lasting {
				resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: x.Name, Data: make([]byte, 8)})
			}
		case smbwire.CreateContextDurableV2:
			if o.durable != nil && o.durable.lasting && (!r.repeats || o.lease.repeatsHandle(q)) {
				d := smbwire.DurableResponse{Timeout: uint32(o.durable.timeout.Milliseconds())}
				if o.durable.persistent {
					d.Flags = smbwire.DurablePersistent
				}
				resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: x.Name, Data: d.AppendTo(nil)})
			}
		}
		if len(resp.Contexts) == maxContexts {
			break
		}
	}
	if o.lease != nil {
		o.lease.answer(o.file, &resp)
		if r.repeats && o.lease.oplock {
			resp.OplockLevel = levelOfState(stateOfLevel(resp.OplockLevel) & stateOfLevel(q.OplockLevel))
		}
		r.answered = o.lease.sent
	}
	created(r, o, &resp, 256)
}

// maxContexts bounds the contexts of a response to a request that repeats some.
const maxContexts = 4

// fileTimes returns the times of a file in the form of the protocol.
func fileTimes(i *vfs.FileInfo) smbwire.FileTimes {
	return smbwire.FileTimes{
		CreationTime: smbwire.FiletimeOf(i.Created), LastAccessTime: smbwire.FiletimeOf(i.Accessed),
		LastWriteTime: smbwire.FiletimeOf(i.Modified), ChangeTime: smbwire.FiletimeOf(i.Changed),
	}
}
