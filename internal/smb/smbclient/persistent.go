package smbclient

import (
	"time"

	"lwio/internal/smb/smbwire"
)

// Persistence names an open that outlives its connection.
//
// Source: [MS-SMB2 2.2.13.2.11]
type Persistence struct {
	// GUID names the open among those of the client.
	GUID [16]byte
	// Timeout is the time for which the server is asked to keep the open without a connection, in
	// milliseconds on the wire; 0 leaves it to the server.
	Timeout time.Duration
}

// context returns the create context of a new open, or of the open id, which is reclaimed.
//
// Source: [MS-SMB2 2.2.13.2.11], [MS-SMB2 2.2.13.2.12]
func (p *Persistence) context(id *smbwire.FileID) smbwire.CreateContext {
	if id != nil {
		d := smbwire.DurableReconnect{FileID: *id, CreateGUID: p.GUID, Flags: smbwire.DurablePersistent}
		return smbwire.CreateContext{Name: smbwire.CreateContextDurableV2Connect, Data: d.AppendTo(nil)}
	}
	d := smbwire.DurableRequest{Timeout: uint32(p.Timeout.Milliseconds()), Flags: smbwire.DurablePersistent, CreateGUID: p.GUID}
	return smbwire.CreateContext{Name: smbwire.CreateContextDurableV2, Data: d.AppendTo(nil)}
}

// granted returns the time for which the server keeps the open without a connection, by the contexts
// of its response; 0 if it is not persistent.
//
// Source: [MS-SMB2 3.2.5.7.2]
func granted(contexts []smbwire.CreateContext) time.Duration {
	for _, x := range contexts {
		if x.Name != smbwire.CreateContextDurableV2 {
			continue
		}
		if d, err := smbwire.DecodeDurableResponse(x.Data); err == nil && d.Flags&smbwire.DurablePersistent != 0 {
			return time.Duration(d.Timeout) * time.Millisecond
		}
	}
	return 0
}

// Granted returns the time for which the server keeps the open without a connection; 0 if it does
// not.
func (f *File) Granted() time.Duration { return f.granted }

// ID returns the handle of the open, for CreateRequest.Reclaim.
func (f *File) ID() smbwire.FileID { return f.id }
