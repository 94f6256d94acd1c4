package smbwire

// The server only sends, or only receives, the structures of this file; the other direction
// serves the tests.

// AppendTo appends the body.
func (r *ChangeNotifyRequest) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, changeNotifyRequestFixed)
	b = le.AppendUint16(b, r.Flags)
	b = le.AppendUint32(b, r.OutputBufferLength)
	b = r.FileID.appendTo(b)
	b = le.AppendUint32(b, r.CompletionFilter)
	return le.AppendUint32(b, 0)
}

// NextNotifyInfo decodes the first change of a list; more is the bytes behind it, nil behind the last.
func NextNotifyInfo(list []byte) (i NotifyInfo, more []byte, err error) {
	const name = "change"
	if len(list) < notifyInfoFixed {
		return i, nil, fault(name, "", ErrShort)
	}
	b := list
	if next := le.Uint32(b); next != 0 {
		if next%4 != 0 || next < notifyInfoFixed || uint64(next) >= uint64(len(b)) {
			return i, nil, fault(name, "NextEntryOffset", ErrOffset)
		}
		b, more = b[:next], b[next:]
	}
	i.Action = le.Uint32(b[4:])
	i.Name, err = rest(name, "FileName", b, notifyInfoFixed, le.Uint32(b[8:]))
	return i, more, err
}

// DecodeCloseResponse decodes a body.
func DecodeCloseResponse(body []byte) (CloseResponse, error) {
	if err := checkBody("CLOSE response", body, closeResponseFixed, closeResponseFixed); err != nil {
		return CloseResponse{}, err
	}
	return CloseResponse{
		Flags:          le.Uint16(body[2:]),
		FileTimes:      fileTimes(body[8:]),
		AllocationSize: le.Uint64(body[40:]),
		EndOfFile:      le.Uint64(body[48:]),
		FileAttributes: le.Uint32(body[56:]),
	}, nil
}

// DecodeMaximalAccess decodes the data.
func DecodeMaximalAccess(b []byte) (MaximalAccess, error) {
	if len(b) < 8 {
		return MaximalAccess{}, fault("maximal access context", "", ErrShort)
	}
	return MaximalAccess{Status: le.Uint32(b), Access: le.Uint32(b[4:])}, nil
}

// DecodeErrorResponse decodes a body.
func DecodeErrorResponse(body []byte) (ErrorResponse, error) {
	const name, field = "ERROR response", "ErrorData"
	if err := checkBody(name, body, errorResponseFixed, errorResponseFixed+1); err != nil {
		return ErrorResponse{}, err
	}
	data, err := rest(name, field, body, errorResponseFixed, le.Uint32(body[4:]))
	count := int(body[2])
	if err != nil || count == 0 {
		return ErrorResponse{Data: data}, err
	}
	r := ErrorResponse{Contexts: make([]ErrorContext, 0, count)}
	for {
		if len(data) < errorContextFixed {
			return ErrorResponse{}, fault(name, field, ErrShort)
		}
		n := le.Uint32(data)
		item, err := rest(name, field, data, errorContextFixed, n)
		if err != nil {
			return ErrorResponse{}, err
		}
		r.Contexts = append(r.Contexts, ErrorContext{ID: le.Uint32(data[4:]), Data: item})
		if len(r.Contexts) == count {
			return r, nil
		}
		next := (errorContextFixed + int64(n) + 7) &^ 7
		if next > int64(len(data)) {
			return ErrorResponse{}, fault(name, field, ErrShort)
		}
		data = data[next:]
	}
}

// DecodeNameInfo decodes the information.
func DecodeNameInfo(b []byte) (NameInfo, error) {
	const name = "name information"
	if err := checkSize(name, b, nameInfoFixed); err != nil {
		return NameInfo{}, err
	}
	text, err := rest(name, "FileName", b, nameInfoFixed, le.Uint32(b))
	return NameInfo{Name: text}, err
}

// DecodeNetworkOpenInfo decodes the information.
func DecodeNetworkOpenInfo(b []byte) (NetworkOpenInfo, error) {
	if err := checkSize("network open information", b, networkOpenInfoSize); err != nil {
		return NetworkOpenInfo{}, err
	}
	return NetworkOpenInfo{
		FileTimes:      fileTimes(b),
		AllocationSize: le.Uint64(b[32:]),
		EndOfFile:      le.Uint64(b[40:]),
		FileAttributes: le.Uint32(b[48:]),
	}, nil
}

// DecodeAttributeTagInfo decodes the information.
func DecodeAttributeTagInfo(b []byte) (AttributeTagInfo, error) {
	if err := checkSize("attribute tag information", b, attributeTagSize); err != nil {
		return AttributeTagInfo{}, err
	}
	return AttributeTagInfo{FileAttributes: le.Uint32(b), ReparseTag: le.Uint32(b[4:])}, nil
}

// DecodeCompressionInfo decodes the information.
func DecodeCompressionInfo(b []byte) (CompressionInfo, error) {
	if err := checkSize("compression information", b, compressionInfoSize); err != nil {
		return CompressionInfo{}, err
	}
	return CompressionInfo{CompressedFileSize: le.Uint64(b), Format: le.Uint16(b[8:])}, nil
}

// DecodeStreamInfo decodes the list; there may be none.
func DecodeStreamInfo(b []byte) ([]StreamInfo, error) {
	const name = "stream information"
	var list []StreamInfo
	for len(b) > 0 {
		if len(b) < streamInfoFixed {
			return nil, fault(name, "", ErrShort)
		}
		one, next := b, le.Uint32(b)
		if next != 0 {
			if next%8 != 0 || next < streamInfoFixed || uint64(next) >= uint64(len(b)) {
				return nil, fault(name, "NextEntryOffset", ErrOffset)
			}
			one = b[:next]
		}
		text, err := rest(name, "StreamName", one, streamInfoFixed, le.Uint32(b[4:]))
		if err != nil {
			return nil, err
		}
		list = append(list, StreamInfo{Size: le.Uint64(b[8:]), AllocationSize: le.Uint64(b[16:]), Name: text})
		if next == 0 {
			break
		}
		b = b[next:]
	}
	return list, nil
}

// AppendTo appends the input of the IOCTL.
func (p *PipeWait) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, uint64(p.Timeout))
	b = le.AppendUint32(b, uint32(len(p.Name)))
	b = appendBool(b, p.TimeoutSpecified)
	b = append(b, 0)
	return append(b, p.Name...)
}

// DecodeFSVolumeInfo decodes the information.
func DecodeFSVolumeInfo(b []byte) (FSVolumeInfo, error) {
	const name = "volume information"
	if err := checkSize(name, b, fsVolumeFixed); err != nil {
		return FSVolumeInfo{}, err
	}
	label, err := rest(name, "VolumeLabel", b, fsVolumeFixed, le.Uint32(b[12:]))
	return FSVolumeInfo{
		CreationTime: Filetime(le.Uint64(b)), SerialNumber: le.Uint32(b[8:]), SupportsObjects: b[16] != 0, Label: label,
	}, err
}

// DecodeFSSizeInfo decodes the information.
func DecodeFSSizeInfo(b []byte) (FSSizeInfo, error) {
	if err := checkSize("size information", b, fsSizeSize); err != nil {
		return FSSizeInfo{}, err
	}
	return FSSizeInfo{le.Uint64(b), le.Uint64(b[8:]), le.Uint32(b[16:]), le.Uint32(b[20:])}, nil
}

// DecodeFSDeviceInfo decodes the information.
func DecodeFSDeviceInfo(b []byte) (FSDeviceInfo, error) {
	if err := checkSize("device information", b, fsDeviceSize); err != nil {
		return FSDeviceInfo{}, err
	}
	return FSDeviceInfo{le.Uint32(b), le.Uint32(b[4:])}, nil
}

// DecodeFSAttributeInfo decodes the information.
func DecodeFSAttributeInfo(b []byte) (FSAttributeInfo, error) {
	const name = "attribute information"
	if err := checkSize(name, b, fsAttributeFixed); err != nil {
		return FSAttributeInfo{}, err
	}
	text, err := rest(name, "FileSystemName", b, fsAttributeFixed, le.Uint32(b[8:]))
	return FSAttributeInfo{Attributes: le.Uint32(b), MaxNameLength: le.Uint32(b[4:]), Name: text}, err
}

// DecodeFileIDInfo decodes the information.
func DecodeFileIDInfo(b []byte) (FileIDInfo, error) {
	if err := checkSize("id information", b, fileIDSize); err != nil {
		return FileIDInfo{}, err
	}
	return FileIDInfo{le.Uint64(b), [16]byte(b[8:24])}, nil
}

// DecodeFSControlInfo decodes the information.
func DecodeFSControlInfo(b []byte) (FSControlInfo, error) {
	if err := checkSize("control information", b, fsControlSize); err != nil {
		return FSControlInfo{}, err
	}
	return FSControlInfo{
		[3]uint64{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])}, le.Uint64(b[24:]), le.Uint64(b[32:]), le.Uint32(b[40:]),
	}, nil
}

// DecodeFSObjectIDInfo decodes the information.
func DecodeFSObjectIDInfo(b []byte) (FSObjectIDInfo, error) {
	if err := checkSize("object id information", b, fsObjectIDSize); err != nil {
		return FSObjectIDInfo{}, err
	}
	return FSObjectIDInfo{[16]byte(b[:16]), [48]byte(b[16:64])}, nil
}

// DecodeFSSectorSizeInfo decodes the information.
func DecodeFSSectorSizeInfo(b []byte) (FSSectorSizeInfo, error) {
	if err := checkSize("sector size information", b, fsSectorSizeSize); err != nil {
		return FSSectorSizeInfo{}, err
	}
	return FSSectorSizeInfo{
		le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:]),
	}, nil
}

// DecodeLeaseBreak decodes a body.
func DecodeLeaseBreak(body []byte) (LeaseBreak, error) {
	if err := checkBody("lease break notification", body, leaseBreakFixed, leaseBreakFixed); err != nil {
		return LeaseBreak{}, err
	}
	return LeaseBreak{
		NewEpoch: le.Uint16(body[2:]), Flags: le.Uint32(body[4:]), LeaseKey: [16]byte(body[8:24]),
		CurrentState: le.Uint32(body[24:]), NewState: le.Uint32(body[28:]),
	}, nil
}

// DecodeSetInfoResponse checks a body.
func DecodeSetInfoResponse(body []byte) (SetInfoResponse, error) {
	return SetInfoResponse{}, checkBody("SET_INFO response", body, setInfoResponseFixed, setInfoResponseFixed)
}

// AppendTo appends the whole message: SMB 1 header, the usual dialects of SMB 1, and the
// offered ones of SMB 2.
func (n *SMB1Negotiate) AppendTo(b []byte) []byte {
	b = appendSMB1Header(b, 0, n.IDs)
	b = append(b, 0, 0, 0)
	at := len(b)
	dialects := []string{"NT LM 0.12"}
	if n.SMB2002 {
		dialects = append(dialects, dialectSMB2002)
	}
	if n.SMB2Wildcard {
		dialects = append(dialects, dialectSMB2Unknown)
	}
	for _, d := range dialects {
		b = append(b, 2)
		b = append(b, d...)
		b = append(b, 0)
	}
	le.PutUint16(b[at-2:], uint16(len(b)-at))
	return b
}
