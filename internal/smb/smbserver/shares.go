package smbserver

import (
	"context"

	"lwio/internal/smb/srvsvc"
)

// sharesPipe is the pipe on which clients list the shares.
//
// Source: [MS-SRVS 2.1]
const sharesPipe = "srvsvc"

// listShares serves a message of the pipe srvsvc. A user sees IPC$, and the shares to which the
// user may connect.
//
// Source: [MS-SRVS 3.1.4.8]
func (s *Server) listShares(_ context.Context, ss *Session, request []byte, _ int) ([][]byte, error) {
	var list []srvsvc.Share
	for _, share := range s.cfg.FS.Shares(ss.user) {
		list = append(list, srvsvc.Share{Name: share.Name, Type: srvsvc.Disk})
	}
	list = append(list, srvsvc.Share{Name: ipcShare, Type: srvsvc.Pipes, Remark: "named pipes"})
	return srvsvc.Serve(request, list)
}
