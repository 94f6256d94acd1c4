package spec

// rulesOfClients are the rules that a client can break.
var rulesOfClients = []rule{
	// Order.
	{"| accepted | one AUTH | end of the connection |", `server.TestViolationsEndConnection/READ before AUTH;
		server.TestViolationsEndConnection/REGISTER before AUTH; server.TestViolationsEndConnection/garbage before AUTH;
		server.TestViolationsEndConnection/a few bytes before AUTH; server.TestViolationsEndConnection/nothing before AUTH`},
	{"| authenticated | everything but AUTH | end of the connection |", "server.TestViolationsEndConnection/second AUTH"},
	{"| time from accepting to AUTH | 5 s |", "server.TestSilentPeerIsCut; server.TestFloodOfPeersLeavesRoomForClients"},
	{"the server counts gaps and does nothing else about them", "server.TestSequenceGapsAreCounted"},

	// NEGOTIATE and keys.
	{"A message that is malformed, has another RevId, or whose Length is not its size breaks the pipe.", "server.TestInvalidNegotiateClosesPipe"},
	{"if even none fit, the pipe fails", "server.TestNegotiateFitsIntoResponse"},
	{"one that no AUTH has used expires after 60 s", "association.TestUnusedKeysExpire"},
	{"before first ends all connections of those key pairs and waits until none of their I/O is in flight", "server.TestNewConnectionReplacesOld"},
	{"| key pairs of an SMB session | 16 | the oldest unused is dropped |", "association.TestPairsPerSessionAreBounded; server.TestKeysInUseSurviveNegotiations; server.TestFloodOfNegotiationsHarmsOwnSessionOnly"},
	{"| connections under one key pair | 16 |", "server.TestConnectionsPerKeyAreLimited; association.TestConnectionsPerKeyAreBounded"},
	{"ClientName is logged and not trusted.", "server.TestClientNameHasNoEffect"},

	// AUTH.
	{"Key: the key of the *other* side, from NEGOTIATE", "server.TestDefectiveAuthIsRefused/wrong key; server.TestDefectiveAuthIsRefused/no key; server.TestClaim13"},
	{"Signature is the MD5 of AUTH_PARAMS as sent", `server.TestDefectiveAuthIsRefused/wrong MD5;
		server.TestDefectiveAuthIsRefused/damaged parameters; server.TestDefectiveAuthIsRefused/no signature`},
	{"Keyed proves that the sender has the SMB session's application key", `server.TestDefectiveAuthIsRefused/no MAC;
		server.TestDefectiveAuthIsRefused/MAC with another key; server.TestDefectiveAuthIsRefused/header changed; server.TestAuthWithoutApplicationKeyIsRefused`},
	{"a copied AUTH is refused on every other connection", "server.TestCopiedAuthIsRefusedOnOtherConnection; server.TestCopiedAuthReplacesNoConnection"},
	{"the server compares it with the binding of the connection", `server.TestDefectiveAuthIsRefused/binding changed;
		server.TestDefectiveAuthIsRefused/binding of another fabric`},
	{"Each side refuses a peer without binding, unless `AllowMD5` is set.", "server.TestDefectiveAuthIsRefused/no binding"},
	{"A code that comes twice, no end, or bytes after the end are refused; a code that is not known is skipped.",
		`server.TestAuthOptionsInAnyOrder/key again; server.TestAuthOptionsInAnyOrder/unknown; server.TestAuthOptionsInAnyOrder/longer than the message;
		server.TestDefectiveAuthIsRefused/no end of options; server.TestDefectiveAuthIsRefused/bytes after the end`},
	{"| 0 | 4 | Magic \"LWIO\" |", "server.TestDefectiveAuthIsRefused/bad magic"},
	{"| 4 | 2 | RevId | 0x1001 | 0x1001 |", "server.TestDefectiveAuthIsRefused/revision"},
	{"Endian: size of a pointer; 4 or 8", "server.TestDefectiveAuthIsRefused/pointers of 16 bytes"},
	{"PageSize: a power of two, 512 to 32768", "server.TestDefectiveAuthIsRefused/pages of 256 bytes; server.TestDefectiveAuthIsRefused/pages of 5000 bytes"},
	{"| 24 | 2 | HeaderSize | 48 | 48 |", "server.TestDefectiveAuthIsRefused/headers of 56 bytes"},
	{"| 12 | 4 | MaxRdmaWindowSize |", "server.TestDefectiveAuthIsRefused/window below the parameters"},
	{"| 20 | 4 | MaxRecvBufferSize | 16 |", "server.TestDefectiveAuthIsRefused/receives below an answer"},
	{"in AUTH with ACCESS_DENIED", "server.TestDefectiveAuthIsRefused/unknown flags"},
	{"ends and drains the connection that option 0x81 names (of the same user)", "server.TestNewConnectionReplacesOld; server.TestReplayResultsGoToTheirUserOnce"},
	{"with a number before BaseSequence is answered with the result that it had, and is done only if it had none",
		"server.TestWritesOnceAcrossConnections; server.TestReplayCacheWrapsAround; server.TestReplayIgnoresNumbersOfAnOldRound"},
	{"up to 2048 results", "server.TestReplayResultsAreBounded"},

	// REGISTER, Fids, rights.
	{"| ACCESS_DENIED | another SessionId |", "server.TestRegisterFindsOwnOpenOnly"},
	{"| OBJECT_NAME_NOT_FOUND | no open of this SMB session has the key |", "server.TestRegisterFindsOwnOpenOnly; server.TestEndToEnd"},
	{"| TOO_MANY_OPENED_FILES | the connection has as many Fids as it may |", "server.TestRegisterFindsOwnOpenOnly; server.TestFileTableUsesAllNumbers"},
	{"| Fid not registered, or closed | FILE_CLOSED |", `server.TestReadReturnsDataOrItsStatus/fid 0; server.TestReadReturnsDataOrItsStatus/unknown fid;
		server.TestWriteStoresDataOrReturnsItsStatus/fid 0; server.TestCloseIsABarrier; server.TestSMBCloseWaitsForIOInFlight`},
	{"a connection that holds this up for 5 s is cut", "server.TestSMBCloseCutsStalledIO; server.TestSMBCloseCutsClientThatDoesNotReceive"},
	{"| access not granted | ACCESS_DENIED |", "server.TestAccessRightsOfTheOpenHold"},

	// Lengths.
	{"| fewer than 48 bytes, or more than 48 + MaxRecvBufferSize | end of the connection |", `server.TestViolationsEndConnection/47 bytes;
		server.TestViolationsEndConnection/no bytes; server.TestViolationsEndConnection/WRITE above the limit;
		server.TestViolationsEndConnection/WRITE of a Length above the limit`},
	{"| CLOSE, CANCEL, CREDIT, INTERRUPT | 48, and Length says so |", `server.TestViolationsEndConnection/CLOSE of a wrong length;
		server.TestViolationsEndConnection/CLOSE with a body`},
	{"| REGISTER | 84, and Length says so |", "server.TestViolationsEndConnection/REGISTER cut off"},
	{"| AUTH | at least 79, and Length says so |", `server.TestViolationsEndConnection/AUTH of a wrong length;
		server.TestViolationsEndConnection/AUTH of the header alone`},
	{"| READ | 48 |", "server.TestViolationsEndConnection/READ with a body"},
	{"| WRITE, VEC_WRITE | 48 + Length |", `server.TestViolationsEndConnection/WRITE with less than it says;
		server.TestViolationsEndConnection/WRITE with more than it says`},
	{"| VEC_WRITE with COLLAPSE | 48 + min(Length, PageSize) |", "server.TestViolationsEndConnection/collapsed VEC_WRITE of two pages"},
	{"| VEC_READ | 48 + 16 × NumPages |", "server.TestViolationsEndConnection/VEC_READ without its regions"},
	{"| control message without INTERRUPT | end of the connection |", `server.TestViolationsEndConnection/AUTH without INTERRUPT;
		server.TestViolationsEndConnection/CLOSE without INTERRUPT; server.TestViolationsEndConnection/INTERRUPT without INTERRUPT`},
	{"| unknown opcode without INTERRUPT | end of the connection |", "server.TestViolationsEndConnection/unknown opcode without INTERRUPT"},
	{"| unknown opcode with INTERRUPT | INVALID_DEVICE_REQUEST |", "server.TestUnknownFlagOrOpcodeIsRefused"},
	{"| unknown flags, COLLAPSE elsewhere, bad regions or pages, Length or Offset out of range | INVALID_PARAMETER |",
		`server.TestReadReturnsDataOrItsStatus/unknown flag; server.TestReadReturnsDataOrItsStatus/collapse; server.TestReadReturnsDataOrItsStatus/above the window;
		server.TestReadReturnsDataOrItsStatus/huge; server.TestReadReturnsDataOrItsStatus/beyond 2^63; server.TestWriteStoresDataOrReturnsItsStatus/unknown flag;
		server.TestWriteStoresDataOrReturnsItsStatus/collapse; server.TestWriteStoresDataOrReturnsItsStatus/append marker; server.TestVecReadScattersData`},
	{"an open with FILE_NO_INTERMEDIATE_BUFFERING (0x8), and a Length of at most the server's MaxRdmaWindowSize", "server.TestVecWriteRepeatsCollapsedPage"},

	// Memory.
	{"The server never exposes memory", "server.TestRemoteAccessEndsConnection; server.TestServerExposesNoMemory; server.TestClaim02"},
	{"| wrong address or handle | the RDMA layer ends the connection |", "server.TestWrongRemoteAddressEndsConnection"},

	// Wake-up and credits.
	{"| an INTERRUPT waits already | DEVICE_BUSY |", "server.TestInterruptIsAnsweredByNextCompletion"},
	{"The server has O outstanding, and O ≤ P", "server.TestImpossibleInterruptWaits"},
	{"Every message takes one and gives it back with its answer.", "server.TestRequestBeyondCreditsEndsConnection"},
	{"A CREDIT that does not fit the change in progress, or no CREDIT within the stall limit of 30 s, ends the connection.",
		`server.TestUnansweredCreditChangeCutsConnection; server.TestUnexpectedCreditEndsConnection/nothing was asked; server.TestUnexpectedCreditEndsConnection/gives up unasked;
		server.TestUnexpectedCreditEndsConnection/more unused than granted; server.TestUnexpectedCreditEndsConnection/gives up a growth;
		server.TestUnexpectedCreditEndsConnection/answers a growth twice; server.TestUnexpectedCreditEndsConnection/uses a shrink;
		server.TestUnexpectedCreditEndsConnection/in the wrong order; server.TestUnexpectedCreditEndsConnection/too many;
		server.TestUnexpectedCreditEndsConnection/one twice; server.TestUnexpectedCreditEndsConnection/far out`},

	// Flooding, stalling, dying.
	{"| connections, of them before AUTH | 1024, 64 |", "server.TestUnauthenticatedConnectionsAreEvictedFirst; server.TestFloodOfPeersLeavesRoomForClients"},
	{"| time that an answer may stay untaken (stall limit) | 30 s |", "server.TestStalledClientIsCut"},
	{"Requests run concurrently and complete in any order.", "server.TestUnresponsiveFileHoldsUpNoOther; server.TestUnresponsiveFilesHoldUpNoOther; server.TestConnectionsAreIndependent"},
	{"When a connection ends, the server touches no memory of the client's any more.", `server.TestDisconnectDuringIOLeavesNothing;
		server.TestServerOutlivesClientDeathAtEveryByte; server.TestServerOutlivesClientDeathAtEveryOperation; server.TestHalfAMessageHoldsUpNoOther`},
}
