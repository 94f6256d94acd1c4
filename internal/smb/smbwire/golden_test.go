package smbwire

import (
	"testing"

	"lwio/internal/ntstatus"
)

const (
	idWire = "0807060504030201 1817161514131211"
	// timesWire is sampleTimes.
	timesWire = "0100000000000000 0200000000000000 0300000000000000 0400000000000000"
)

var (
	sampleID    = FileID{0x0102030405060708, 0x1112131415161718}
	sampleTimes = FileTimes{1, 2, 3, 4}
	guid        = [16]byte{0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF}
)

const guidWire = "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"

// goldens are at least one value of each kind, with bytes written by hand.
var goldens = []golden{
	{"sync header", "Header", Header{
		CreditCharge: 2, Status: ntstatus.AccessDenied, Command: CommandRead, Credits: 3, Flags: FlagResponse | FlagSigned,
		NextCommand: 0x68, MessageID: 9, ProcessID: 0xFEFF, TreeID: 5, SessionID: 0x1122334455667788, Signature: guid,
	}, "fe534d42 4000 0200 220000c0 0800 0300 09000000 68000000 0900000000000000 fffe0000 05000000 8877665544332211" + guidWire},
	{"async header", "Header", Header{
		Status: ntstatus.Pending, Command: CommandChangeNotify, Flags: FlagResponse | FlagAsync, MessageID: 1, AsyncID: 0x0A0B0C0D0E0F1011, SessionID: 7,
	}, "fe534d42 4000 0000 03010000 0f00 0000 03000000 00000000 0100000000000000 11100f0e0d0c0b0a 0700000000000000 00000000000000000000000000000000"},
	{
		"encrypted", "TransformHeader",
		TransformHeader{Signature: guid, Nonce: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, OriginalMessageSize: 0x87, SessionID: 0x1122334455667788},
		"fd534d42" + guidWire + "0102030405060708090a0b0c00000000 87000000 0000 0100 8877665544332211",
	},
	{
		"SMB 1", "SMB1Negotiate",
		SMB1Negotiate{SMB2002: true, SMB2Wildcard: true, IDs: [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"ff534d42 72 00000000 00 0000 0102 0000000000000000 0000 0304 0506 0708 090a 00 2200" +
			"024e54204c4d20302e313200 02534d4220322e30303200 02534d4220322e3f3f3f00",
	},
	{"3.1.1", "NegotiateRequest", NegotiateRequest{
		SecurityMode: SigningEnabled, Capabilities: CapLargeMTU | CapEncryption, ClientGUID: guid, Dialects: []uint16{Dialect302, Dialect311},
		Contexts: []NegotiateContext{{ContextSigning, []byte{1, 0, 1, 0}}, {ContextNetname, []byte{'h', 0}}},
	}, "2400 0200 0100 0000 44000000" + guidWire + "68000000 0200 0000 0203 1103" +
		"0800 0400 00000000 01000100 00000000 0500 0200 00000000 6800"},
	{
		"3.0", "NegotiateRequest",
		NegotiateRequest{SecurityMode: SigningRequired, ClientGUID: guid, Dialects: []uint16{Dialect300}},
		"2400 0100 0200 0000 00000000" + guidWire + "0000000000000000 0003",
	},
	{"3.1.1", "NegotiateResponse", NegotiateResponse{
		SecurityMode: SigningEnabled | SigningRequired, Dialect: Dialect311, ServerGUID: guid, Capabilities: 0x01, MaxTransactSize: 0x100000,
		MaxReadSize: 0x200000, MaxWriteSize: 0x300000, SystemTime: 5, ServerStartTime: 6, SecurityBuffer: []byte{0x60, 0x01, 0x02},
		Contexts: []NegotiateContext{{ContextPreauthIntegrity, []byte{1, 0, 0, 0, 1, 0}}},
	}, "4100 0300 1103 0100" + guidWire + "01000000 00001000 00002000 00003000 0500000000000000 0600000000000000 8000 0300 88000000" +
		"600102 0000000000 0100 0600 00000000 010000000100"},
	{"preauth", "PreauthIntegrity", PreauthIntegrity{Hashes: []uint16{HashSHA512}, Salt: []byte{9, 8, 7}}, "0100 0300 0100 090807"},
	{"token", "SessionSetupRequest", SessionSetupRequest{
		Flags: SessionFlagBinding, SecurityMode: 2, Capabilities: 0x01, Channel: 3, PreviousSessionID: 4, SecurityBuffer: []byte{1, 2, 3},
	}, "1900 01 02 01000000 03000000 5800 0300 0400000000000000 010203"},
	{"token", "SessionSetupResponse", SessionSetupResponse{SessionFlags: SessionIsGuest, SecurityBuffer: []byte{1, 2}}, "0900 0100 4800 0200 0102"},
	{"", "Empty", Empty{}, "0400 0000"},
	{"share", "TreeConnectRequest", TreeConnectRequest{Flags: 1, Path: text(`\\s\d`)}, "0900 0100 4800 0a00 5c005c0073005c006400"},
	{
		"pipe", "TreeConnectResponse",
		TreeConnectResponse{ShareType: ShareTypePipe, ShareFlags: 0x30, Capabilities: 8, MaximalAccess: 0x1F01FF},
		"1000 02 00 30000000 08000000 ff011f00",
	},
	{"no contexts", "CreateRequest", CreateRequest{
		OplockLevel: 0x09, ImpersonationLevel: ImpersonationImpersonation, DesiredAccess: 0x80, FileAttributes: 0x20, ShareAccess: 7,
		CreateDisposition: 1, CreateOptions: 0x40, Name: text("ab"),
	}, "3900 00 09 02000000 0000000000000000 0000000000000000 80000000 20000000 07000000 01000000 40000000 7800 0400 00000000 00000000 61006200"},
	{"contexts", "CreateRequest", CreateRequest{
		Name: text("a"), Contexts: []CreateContext{{Name: CreateContextMaximalAccess}, {Name: "DHnQ", Data: []byte{1, 2, 3}}},
	}, "3900 00 00 00000000 0000000000000000 0000000000000000 00000000 00000000 00000000 00000000 00000000 7800 0200 80000000 33000000 6100 000000000000" +
		"18000000 1000 0400 0000 0000 00000000 4d784163 00000000" + "00000000 1000 0400 0000 1800 03000000 44486e51 00000000 010203"},
	{"", "CreateResponse", CreateResponse{
		OplockLevel: 1, Flags: 2, CreateAction: 3, FileTimes: sampleTimes, AllocationSize: 0x1000, EndOfFile: 0xFFF, FileAttributes: 0x20, FileID: sampleID,
		Contexts: []CreateContext{{Name: CreateContextQueryOnDiskID, Data: []byte{0xEE}}},
	}, "5900 01 02 03000000" + timesWire + "0010000000000000 ff0f000000000000 20000000 00000000" + idWire + "98000000 19000000" +
		"00000000 1000 0400 0000 1800 01000000 51466964 00000000 ee"},
	{"", "MaximalAccess", MaximalAccess{Status: 0xC0000022, Access: 5}, "220000c0 05000000"},
	{"", "OnDiskID", OnDiskID{FileID: 1, VolumeID: 2}, "0100000000000000 0200000000000000 0000000000000000 0000000000000000"},
	{"", "AppInstance", AppInstance{ID: guid}, "1400 0000" + guidWire},
	{"", "DurableRequest", DurableRequest{Timeout: 60000, Flags: DurablePersistent, CreateGUID: guid}, "60ea0000 02000000 0000000000000000" + guidWire},
	{"", "DurableResponse", DurableResponse{Timeout: 60000, Flags: DurablePersistent}, "60ea0000 02000000"},
	{"", "DurableV1Reconnect", DurableV1Reconnect{FileID: sampleID}, idWire},
	{"", "DurableReconnect", DurableReconnect{FileID: sampleID, CreateGUID: guid, Flags: DurablePersistent}, idWire + guidWire + "02000000"},
	{"", "CloseRequest", CloseRequest{Flags: ClosePostQueryAttributes, FileID: sampleID}, "1800 0100 00000000" + idWire},
	{
		"", "CloseResponse",
		CloseResponse{Flags: 1, FileTimes: sampleTimes, AllocationSize: 5, EndOfFile: 6, FileAttributes: 7},
		"3c00 0100 00000000" + timesWire + "0500000000000000 0600000000000000 07000000",
	},
	{"", "FlushRequest", FlushRequest{FileID: sampleID}, "1800 0000 00000000" + idWire},
	{"", "ReadRequest", ReadRequest{
		Padding: 0x50, Flags: 1, Length: 0x10000, Offset: 0x123456789A, FileID: sampleID, MinimumCount: 2, Channel: 1, RemainingBytes: 4, ChannelInfo: []byte{7},
	}, "3100 50 01 00000100 9a78563412000000" + idWire + "02000000 01000000 04000000 7000 0100 07"},
	{"", "ReadResponse", ReadResponse{Remaining: 4, Data: []byte("data")}, "1100 50 00 04000000 04000000 00000000 64617461"},
	{
		"", "WriteRequest",
		WriteRequest{Offset: 0x123456789A, FileID: sampleID, Channel: 1, RemainingBytes: 2, Flags: WriteFlagThrough, Data: []byte("data")},
		"3100 7000 04000000 9a78563412000000" + idWire + "01000000 02000000 0000 0000 01000000 64617461",
	},
	{"", "WriteResponse", WriteResponse{Count: 0x10000, Remaining: 1}, "1100 0000 00000100 01000000 0000 0000"},
	{
		"", "LockRequest",
		LockRequest{Sequence: 0x11, FileID: sampleID, Locks: []LockElement{{1, 2, LockShared}, {3, 4, LockUnlock}}},
		"3000 0200 11000000" + idWire + "0100000000000000 0200000000000000 01000000 00000000 0300000000000000 0400000000000000 04000000 00000000",
	},
	{
		"input", "IoctlRequest",
		IoctlRequest{CtlCode: FsctlPipeTransceive, FileID: sampleID, MaxInputResponse: 1, MaxOutputResponse: 0x400, Flags: IoctlIsFSCTL, Input: []byte("in")},
		"3900 0000 17c01100" + idWire + "78000000 02000000 01000000 00000000 00000000 00040000 01000000 00000000 696e",
	},
	{
		"both", "IoctlRequest",
		IoctlRequest{CtlCode: 1, Input: []byte("in"), Output: []byte("out")},
		"3900 0000 01000000 0000000000000000 0000000000000000 78000000 02000000 00000000 80000000 03000000 00000000 00000000 00000000 696e 000000000000 6f7574",
	},
	{
		"", "IoctlResponse",
		IoctlResponse{CtlCode: FsctlSrvRequestResumeKey, FileID: sampleID, Input: []byte("in"), Output: []byte("out")},
		"3100 0000 78001400" + idWire + "70000000 02000000 78000000 03000000 00000000 00000000 696e 000000000000 6f7574",
	},
	{"", "QueryDirectoryRequest", QueryDirectoryRequest{
		Class: ClassIDBothDirectory, Flags: QueryDirectoryRestart, FileIndex: 3, FileID: sampleID, OutputBufferLength: 0x10000, Pattern: text("*"),
	}, "2100 25 01 03000000" + idWire + "6000 0200 00000100 2a00"},
	{"", "BufferResponse", BufferResponse{Data: []byte{1, 2, 3}}, "0900 4800 03000000 010203"},
	{
		"", "ChangeNotifyRequest",
		ChangeNotifyRequest{Flags: ChangeNotifyWatchTree, OutputBufferLength: 0x400, FileID: sampleID, CompletionFilter: 0x17},
		"2000 0100 00040000" + idWire + "17000000 00000000",
	},
	{"", "QueryInfoRequest", QueryInfoRequest{
		InfoType: InfoFile, Class: uint8(ClassAll), OutputBufferLength: 0x1000, AdditionalInformation: 1, Flags: 2, FileID: sampleID, Input: []byte{5},
	}, "2900 01 12 00100000 6800 0000 01000000 01000000 02000000" + idWire + "05"},
	{
		"", "SetInfoRequest",
		SetInfoRequest{InfoType: InfoFile, Class: uint8(ClassEndOfFile), AdditionalInformation: 1, FileID: sampleID, Data: []byte{9, 0, 0, 0, 0, 0, 0, 0}},
		"2100 01 14 08000000 6000 0000 01000000" + idWire + "0900000000000000",
	},
	{"", "SetInfoResponse", SetInfoResponse{}, "0200"},
	{"", "OplockBreak", OplockBreak{OplockLevel: 0x01, FileID: sampleID}, "1800 01 00 00000000" + idWire},
	{"", "Notification", Notification{Type: NotifySessionClosed, Mark: DrainedMark}, "0c00 0000 00000000 4c57494f"},
	{"", "LeaseAck", LeaseAck{Flags: 2, LeaseKey: guid, LeaseState: 3}, "2400 0000 02000000" + guidWire + "03000000 0000000000000000"},
	{
		"", "LeaseBreak",
		LeaseBreak{NewEpoch: 5, Flags: LeaseBreakAckRequired, LeaseKey: guid, CurrentState: 7, NewState: 3},
		"2c00 0500 01000000" + guidWire + "07000000 03000000 00000000 00000000 00000000",
	},
	{"data", "ErrorResponse", ErrorResponse{Data: []byte{1, 2, 3, 4}}, "0900 00 00 04000000 01020304"},
	{
		"contexts", "ErrorResponse",
		ErrorResponse{Contexts: []ErrorContext{{1, []byte{5}}, {2, []byte{6, 7}}}},
		"0900 02 00 1a000000 01000000 01000000 05 00000000000000 02000000 02000000 0607",
	},
	{
		"", "ValidateNegotiateRequest",
		ValidateNegotiateRequest{Capabilities: CapLargeMTU, GUID: guid, SecurityMode: SigningRequired, Dialects: []uint16{Dialect300, Dialect302}},
		"04000000" + guidWire + "0200 0200 0003 0203",
	},
	{
		"", "ValidateNegotiateResponse",
		ValidateNegotiateResponse{Capabilities: CapLargeMTU, GUID: guid, SecurityMode: SigningRequired, Dialect: Dialect302},
		"04000000" + guidWire + "0200 0203",
	},
	{
		"context", "ResumeKey",
		ResumeKey{Key: [24]byte{1, 2, 3, 23: 24}, Context: text("abc")},
		"010203000000000000000000000000000000000000000018 06000000 610062006300",
	},
	{"", "PipeWait", PipeWait{Timeout: -2, TimeoutSpecified: true, Name: text("p")}, "feffffffffffffff 02000000 01 00 7000"},
	{"", "BasicInfo", BasicInfo{FileTimes: sampleTimes, FileAttributes: 0x20}, timesWire + "20000000 00000000"},
	{
		"", "StandardInfo",
		StandardInfo{AllocationSize: 0x1000, EndOfFile: 5, NumberOfLinks: 2, DeletePending: true},
		"0010000000000000 0500000000000000 02000000 01 00 0000",
	},
	{"", "Uint32Info", Uint32Info(0x12345678), "78563412"},
	{"", "Uint64Info", Uint64Info(0x0102030405060708), "0807060504030201"},
	{"", "DispositionInfo", DispositionInfo(true), "01"},
	{"", "NameInfo", NameInfo{Name: text("n")}, "02000000 6e00"},
	{"", "AllInfo", AllInfo{
		Basic: BasicInfo{FileTimes: sampleTimes, FileAttributes: 0x10}, Standard: StandardInfo{EndOfFile: 5, NumberOfLinks: 1, Directory: true},
		FileID: 7, EASize: 8, Access: 9, Position: 10, Mode: 11, AlignmentRequirement: 12,
	}, timesWire + "10000000 00000000" + "0000000000000000 0500000000000000 01000000 00 01 0000" +
		"0700000000000000 08000000 09000000 0a00000000000000 0b000000 0c000000 00000000"},
	{
		"", "NetworkOpenInfo",
		NetworkOpenInfo{FileTimes: sampleTimes, AllocationSize: 0x1000, EndOfFile: 5, FileAttributes: 0x20},
		timesWire + "0010000000000000 0500000000000000 20000000 00000000",
	},
	{"", "AttributeTagInfo", AttributeTagInfo{FileAttributes: 0x20, ReparseTag: 0xA000000C}, "20000000 0c0000a0"},
	{"", "CompressionInfo", CompressionInfo{CompressedFileSize: 5, Format: 1}, "0500000000000000 0100 00 00 00 000000"},
	{"", "RenameInfo", RenameInfo{ReplaceIfExists: true, RootDirectory: 2, Name: text("to")}, "01 00000000000000 0200000000000000 04000000 74006f00"},
	{"", "FSVolumeInfo", FSVolumeInfo{CreationTime: 1, SerialNumber: 2, SupportsObjects: true, Label: text("L")}, "0100000000000000 02000000 02000000 01 00 4c00"},
	{"", "FSSizeInfo", FSSizeInfo{TotalUnits: 1, AvailableUnits: 2, SectorsPerUnit: 8, BytesPerSector: 512}, "0100000000000000 0200000000000000 08000000 00020000"},
	{
		"", "FSFullSizeInfo",
		FSFullSizeInfo{TotalUnits: 1, CallerAvailableUnits: 2, ActualAvailableUnits: 3, SectorsPerUnit: 8, BytesPerSector: 512},
		"0100000000000000 0200000000000000 0300000000000000 08000000 00020000",
	},
	{"", "FSDeviceInfo", FSDeviceInfo{DeviceType: DeviceTypeDisk, Characteristics: DeviceIsMounted}, "07000000 20000000"},
	{"", "FSAttributeInfo", FSAttributeInfo{Attributes: 7, MaxNameLength: 255, Name: text("FS")}, "07000000 ff000000 04000000 46005300"},
	{"", "FileIDInfo", FileIDInfo{0x0102030405060708, guid}, "0807060504030201" + guidWire},
	{
		"", "FSControlInfo", FSControlInfo{[3]uint64{1, 2, 3}, 4, NoQuota, 5},
		"0100000000000000 0200000000000000 0300000000000000 0400000000000000 ffffffffffffffff 05000000 00000000",
	},
	{
		"", "FSObjectIDInfo",
		FSObjectIDInfo{ObjectID: guid, Extended: [48]byte{0: 1, 47: 2}},
		guidWire + "0100000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000002",
	},
	{"", "FSSectorSizeInfo", FSSectorSizeInfo{512, 4096, 4096, 4096, 3, 0, 1}, "00020000 00100000 00100000 00100000 03000000 00000000 01000000"},
}

// The number of a lock sequence is in the lowest four bits, the bucket in the others.
//
// Source: [MS-SMB2 2.2.26]
func TestLockSequence(t *testing.T) {
	for _, x := range []struct {
		bucket   uint32
		number   uint8
		sequence uint32
	}{
		{0, 0, 0},
		{1, 1, 0x11},
		{LockBuckets, 15, 0x40F},
		{1<<28 - 1, 0, 0xFFFFFFF0},
	} {
		if got := LockSequence(x.bucket, x.number); got != x.sequence {
			t.Errorf("bucket %d, number %d: %#x, want %#x", x.bucket, x.number, got, x.sequence)
		}
		r := LockRequest{Sequence: x.sequence}
		if bucket, number := r.Bucket(); bucket != x.bucket || number != x.number {
			t.Errorf("%#x: bucket %d, number %d", x.sequence, bucket, number)
		}
	}
	if LockSequence(1, 0x1F) != 0x1F {
		t.Error("a number of more than four bits reaches the bucket")
	}
}

// Each structure has the layout of the specification, and no prefix of it is accepted.
//
// Source: [MS-SMB2 2.2], [MS-FSCC 2.4], [MS-FSCC 2.5]
func TestStructuresMatchGoldenBytes(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goldens {
		seen[g.codec] = true
		t.Run(g.codec+"/"+g.name, func(t *testing.T) { codecs[g.codec].golden(t, g) })
	}
	for name := range codecs {
		if !seen[name] {
			t.Errorf("%s has no golden bytes", name)
		}
	}
}
