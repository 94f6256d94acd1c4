package smbclient

import (
	"context"
	"time"

	"lwio/internal/smb/smbwire"
)

// ipcShare is the share of the named pipes.
const ipcShare = "IPC$"

// pipeCloseTimeout bounds Pipe.Close.
const pipeCloseTimeout = 5 * time.Second

// Pipe is an open named pipe in message mode, with a tree connect of its own.
type Pipe struct {
	tree *Tree
	file *File
}

// OpenPipe opens a named pipe for reading and writing.
//
// Errors: fs.ErrNotExist if the pipe does not exist.
//
// Source: [LWIO §Network Discovery], [MS-SMB2 3.2.4.3]
func (s *Session) OpenPipe(ctx context.Context, name string) (*Pipe, error) {
	const readWrite = 0x0012019F
	ipc, err := s.treeConnect(ctx, ipcShare)
	if err != nil {
		return nil, timely(err)
	}
	f, err := ipc.Create(ctx, CreateRequest{Name: name, Access: readWrite, Share: shareAll, Disposition: dispositionOpen})
	if err != nil {
		_ = ipc.disconnect(ctx) // the first error is the cause
		return nil, err
	}
	return &Pipe{ipc, f}, nil
}

// Transact writes one message and reads the answer, at most maxOut bytes or the limit of
// the server. in is not kept; the result belongs to the caller. A longer answer is
// truncated and comes with an error that is ntstatus.BufferOverflow.
//
// Source: [MS-FSCC 2.3.45], [OP-34]
func (p *Pipe) Transact(ctx context.Context, in []byte, maxOut int) ([]byte, error) {
	out, err := p.file.ioctl(ctx, smbwire.FsctlPipeTransceive, in, min(maxOut, p.tree.s.neg.maxTransact))
	return out, timely(err)
}

// Close disconnects from IPC$, which closes the pipe.
func (p *Pipe) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), pipeCloseTimeout)
	defer cancel()
	return p.tree.Disconnect(ctx)
}
