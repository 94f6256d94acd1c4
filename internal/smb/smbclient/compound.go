package smbclient

import (
	"context"
	"fmt"
	"path"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// step is one request of a message with several, and the use of its response.
type step struct {
	request
	done func(r *response) error // takes the response; nil if it has no content
	also []ntstatus.Status       // statuses beside Success that are no failure
}

// exchangeAll sends requests in one message, the later ones related to the first, and waits for the
// responses in order. It gives up those behind a failure, which the server executes all the same. It returns
// the first request, or nil if the message was not sent, and the index of the failure.
//
// Source: [MS-SMB2 3.2.4.1.4]
func (c *conn) exchangeAll(ctx context.Context, steps []step) (first *pending, failed int, err error) {
	reqs := make([]request, len(steps))
	for i := range steps {
		reqs[i] = steps[i].request
	}
	list, err := c.send(ctx, reqs...)
	if err != nil {
		return nil, 0, err
	}
	for i, p := range list {
		if err != nil {
			c.abandon(p, false)
			continue
		}
		if err = c.take(ctx, p, &steps[i]); err != nil {
			failed = i
		}
	}
	return list[0], failed, err
}

// take waits for the response to a step.
func (c *conn) take(ctx context.Context, p *pending, s *step) error {
	r, err := c.result(ctx, p, s.also...)
	if err != nil {
		return err
	}
	defer c.free(r)
	if s.done == nil || slices.Contains(s.also, r.Status) {
		return nil
	}
	return s.done(r)
}

// createStep opens q, which w encodes, and stores the open in f.
func (t *Tree) createStep(q *CreateRequest, w *smbwire.CreateRequest, f *File) step {
	return step{
		request: request{command: smbwire.CommandCreate, body: w, treeID: t.id, replay: q.Replay},
		done: func(r *response) error {
			resp, err := smbwire.DecodeCreateResponse(r.body())
			if err != nil {
				return fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			f.id, f.info = resp.FileID, createdInfo(path.Base(q.Name), &resp)
			f.granted, f.whole = granted(resp.Contexts), hasWhole(resp.Contexts)
			return nil
		},
	}
}

// setStep changes a file.
func (t *Tree) setStep(id smbwire.FileID, s setInfo) step {
	return step{request: request{
		command: smbwire.CommandSetInfo, treeID: t.id, payload: len(s.data),
		body: &smbwire.SetInfoRequest{InfoType: smbwire.InfoFile, Class: uint8(s.class), FileID: id, Data: s.data},
	}}
}

// writeStep writes data from the start of a file.
func (t *Tree) writeStep(id smbwire.FileID, data []byte) step {
	return step{
		request: request{command: smbwire.CommandWrite, treeID: t.id, payload: len(data), body: &smbwire.WriteRequest{FileID: id, Data: data}},
		done: func(r *response) error {
			resp, err := smbwire.DecodeWriteResponse(r.body())
			if err != nil || int64(resp.Count) != int64(len(data)) {
				return fmt.Errorf("%w: %d bytes written of %d, %w", ErrProtocol, resp.Count, len(data), cause(err))
			}
			return nil
		},
	}
}

// readStep reads the start of a file into p, and stores the number of bytes in n.
func (t *Tree) readStep(id smbwire.FileID, p []byte, n *int) step {
	return step{
		request: request{command: smbwire.CommandRead, treeID: t.id, payload: len(p), body: &smbwire.ReadRequest{
			Padding: smbwire.HeaderSize + smbwire.ReadResponseFixed, Length: uint32(len(p)), FileID: id,
		}},
		also: []ntstatus.Status{ntstatus.EndOfFile},
		done: func(r *response) error {
			resp, err := smbwire.DecodeReadResponse(r.body())
			if err != nil || len(resp.Data) > len(p) {
				return fmt.Errorf("%w: %d bytes read of %d, %w", ErrProtocol, len(resp.Data), len(p), cause(err))
			}
			*n = copy(p, resp.Data)
			return nil
		},
	}
}

// volumeStep stores a class of information about the file system of a file, of at most room bytes, in info.
func (t *Tree) volumeStep(id smbwire.FileID, class smbwire.FSClass, room int, info *[]byte) step {
	return step{
		request: request{command: smbwire.CommandQueryInfo, treeID: t.id, payload: room, body: &smbwire.QueryInfoRequest{
			InfoType: smbwire.InfoFileSystem, Class: uint8(class), OutputBufferLength: uint32(room), FileID: id,
		}},
		done: func(r *response) error {
			resp, err := smbwire.DecodeBufferResponse(r.body())
			if err != nil || len(resp.Data) > room {
				return fmt.Errorf("%w: %d bytes of information, %w", ErrProtocol, len(resp.Data), cause(err))
			}
			*info = slices.Clone(resp.Data)
			return nil
		},
	}
}

// closeStep closes a file.
func (t *Tree) closeStep(id smbwire.FileID) step {
	return step{request: request{command: smbwire.CommandClose, treeID: t.id, body: &smbwire.CloseRequest{FileID: id}}}
}
