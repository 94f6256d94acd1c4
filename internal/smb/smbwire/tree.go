package smbwire

const (
	treeConnectResponseFixed = 16
)

// Kinds of shares.
//
// Source: [MS-SMB2 2.2.10]
const (
	ShareTypeDisk uint8 = 1
	ShareTypePipe uint8 = 2
)

// Flags and capabilities of a share that this project uses.
//
// Source: [MS-SMB2 2.2.10]
const (
	ShareFlagNoCaching   uint32 = 0x00000030
	ShareFlagEncryptData uint32 = 0x00008000

	// ShareCapContinuousAvailability is the capability of a share with persistent handles.
	ShareCapContinuousAvailability uint32 = 0x00000010
)

// TreeConnectRequest names a share: \\server\share in UTF-16LE. Contexts of the extended
// form are ignored.
//
// Source: [MS-SMB2 2.2.9]
type TreeConnectRequest struct {
	Flags uint16
	Path  []byte
}

// AppendTo appends the body.
func (r *TreeConnectRequest) AppendTo(b []byte) []byte {
	return appendFlags(b, r.Flags, r.Path)
}

// DecodeTreeConnectRequest decodes a body.
func DecodeTreeConnectRequest(body []byte) (TreeConnectRequest, error) {
	flags, path, err := decodeFlags("TREE_CONNECT request", "Path", body)
	return TreeConnectRequest{Flags: flags, Path: path}, err
}

// TreeConnectResponse describes a share.
//
// Source: [MS-SMB2 2.2.10]
type TreeConnectResponse struct {
	ShareType     uint8
	ShareFlags    uint32
	Capabilities  uint32
	MaximalAccess uint32
}

// AppendTo appends the body.
func (r *TreeConnectResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, treeConnectResponseFixed)
	b = append(b, r.ShareType, 0)
	b = le.AppendUint32(b, r.ShareFlags)
	b = le.AppendUint32(b, r.Capabilities)
	return le.AppendUint32(b, r.MaximalAccess)
}

// DecodeTreeConnectResponse decodes a body.
func DecodeTreeConnectResponse(body []byte) (TreeConnectResponse, error) {
	if err := checkBody("TREE_CONNECT response", body, treeConnectResponseFixed, treeConnectResponseFixed); err != nil {
		return TreeConnectResponse{}, err
	}
	return TreeConnectResponse{
		ShareType:     body[2],
		ShareFlags:    le.Uint32(body[4:]),
		Capabilities:  le.Uint32(body[8:]),
		MaximalAccess: le.Uint32(body[12:]),
	}, nil
}
