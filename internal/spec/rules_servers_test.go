package spec

// rulesOfServers are the rules that a server can break.
var rulesOfServers = []rule{
	// Discovery and NEGOTIATE.
	{"A message that is malformed, has another RevId, or whose Length is not its size breaks the pipe.",
		`fileio.TestNegotiateRefusals/garbage; fileio.TestNegotiateRefusals/cut short; fileio.TestNegotiateRefusals/nothing`},
	{"If SMB answers that the pipe does not exist, the server has no LWIO", "fileio.TestNegotiateRefusals/LWIO off"},
	{"The response lists the providers of both sides", `fileio.TestNegotiateRefusals/nothing in common;
		fileio.TestNegotiateRefusals/not offered`},
	{"| iwarp | 0, 4 or 16 bytes of IP address; 0 means the address of the SMB server | port, 2 bytes, big-endian |",
		`fileio.TestNegotiateRefusals/no address; fileio.TestNegotiateRefusals/odd address; fileio.TestNegotiateRefusals/odd port`},
	{"and uses the first that works", "fileio.TestNextAddressIsTriedAfterFailure; fileio.TestNegotiateRefusals/no listener"},

	// AUTH.
	{"checks 30 ≤ Information − 8 ≤ 512, the key, the signatures, BaseSequence and Credits, and closes the connection if anything is wrong",
		`fileio.TestClientRefusesWrongAuthAnswer/size below the fixed part; fileio.TestClientRefusesWrongAuthAnswer/size 0;
		fileio.TestClientRefusesWrongAuthAnswer/size above the buffer; fileio.TestClientRefusesWrongAuthAnswer/huge size; fileio.TestClientRefusesWrongAuthAnswer/cut short;
		fileio.TestClientRefusesWrongAuthAnswer/without the plus eight; fileio.TestClientRefusesWrongAuthAnswer/one byte more;
		fileio.TestClientRefusesWrongAuthAnswer/key of another client; fileio.TestClientRefusesWrongAuthAnswer/one bit of the options;
		fileio.TestClientRefusesWrongAuthAnswer/wrong signature; fileio.TestClientRefusesWrongAuthAnswer/no signature; fileio.TestClientRefusesWrongAuthAnswer/wrong MAC key;
		fileio.TestClientRefusesWrongAuthAnswer/MAC of another nonce; fileio.TestClientRefusesWrongAuthAnswer/sequence not increased;
		fileio.TestClientRefusesWrongAuthAnswer/no credits; fileio.TestClientRefusesWrongAuthAnswer/more credits than asked for`},
	{"| 0x80 | 48 | Keyed: Nonce 16, MAC 32 | unless AllowMD5 | if the client did |", `fileio.TestClientRefusesWrongAuthAnswer/MD5 alone;
		fileio.TestClientRefusesWrongAuthAnswer/text alone;
		fileio.TestAuthWithMD5Allowed`},
	{"Each side refuses a peer without binding, unless `AllowMD5` is set.", `fileio.TestClientRefusesWrongAuthAnswer/no nonce of the connection;
		fileio.TestClientRefusesWrongAuthAnswer/AUTH not bound`},
	{"The server answers with the same option 0x82.", "fileio.TestClientRefusesWrongAuthAnswer/bound to another connection"},
	{"Its status is ACCESS_DENIED", `fileio.TestClientRefusesWrongAuthAnswer/access denied;
		fileio.TestClientRefusesWrongAuthAnswer/another status`},
	{"| 4 | 2 | RevId | 0x1001 | 0x1001 |", "fileio.TestClientRefusesWrongAuthAnswer/another revision"},
	{"| 24 | 2 | HeaderSize | 48 | 48 |", "fileio.TestClientRefusesWrongAuthAnswer/another header"},
	{"| 6 | 2 | Endian: size of a pointer; 4 or 8 | 4 or 8 | 8 |", "fileio.TestClientRefusesWrongAuthAnswer/another size of pointers"},
	{"PageSize: a power of two, 512 to 32768", "fileio.TestClientRefusesWrongAuthAnswer/an odd page"},
	{"| 12 | 4 | MaxRdmaWindowSize |", "fileio.TestClientRefusesWrongAuthAnswer/no window"},
	{"| 20 | 4 | MaxRecvBufferSize | 16 | most bytes behind the header |", "fileio.TestClientRefusesWrongAuthAnswer/no room for writes"},
	{"DataVa and DataMh name a buffer of at least 512 bytes.", "fileio.TestClientRefusesWrongAuthAnswer/more than the buffer; fileio.TestAuthExposesOneBuffer"},
	{"| time from accepting to AUTH | 5 s |", "fileio.TestDialFailsWithoutAuthAnswer"},
	{"without the option the results are not available", "fileio.TestServerWithoutReplayCacheLeavesWritesUncertain"},
	{"A write more than 32,767 messages old cannot be replayed.", "rdmaconn.TestWritesTooManyMessagesAgoAreNotReplayed"},

	// Answers.
	{"A client ends the connection over an answer that is not 16 bytes, has a cookie that is not outstanding, reports more bytes than were asked for",
		`fileio.TestHostileAnswerEndsConnection/short message; fileio.TestHostileAnswerEndsConnection/long message; fileio.TestHostileAnswerEndsConnection/empty message;
		fileio.TestHostileAnswerEndsConnection/unknown cookie; fileio.TestHostileAnswerEndsConnection/cookie of an unused request;
		fileio.TestHostileAnswerEndsConnection/old cookie; fileio.TestHostileAnswerEndsConnection/answer twice;
		fileio.TestHostileAnswerEndsConnection/more bytes than asked for; fileio.TestHostileAnswerEndsConnection/a flood`},
	{"file id, 1 to 65535, on one connection; 0 is no file", "fileio.TestHostileFid"},
	{"none are END_OF_FILE", "fileio.TestSuccessWithoutBytes; fileio.TestHostileStatusBlocks/success of nothing"},
	{"the server never completes with PENDING", "fileio.TestHostileStatusBlocks/set to pending; fileio.TestHostileStatusBlocks/never set"},
	{"| none | status block by one RDMA Write of 8 bytes to IosVa |", `fileio.TestHostileStatusBlocks/more bytes than asked for;
		fileio.TestHostileStatusBlocks/all ones; fileio.TestHostileStatusBlocks/garbage; fileio.TestHostileStatusBlocks/set twice;
		fileio.TestHostileStatusBlocks/half of it; fileio.TestHostileStatusBlocks/a message instead;
		fileio.TestHostileStatusBlocks/a guessed cookie`},
	{"equal to ImmediateCookie", "fileio.TestHostileImmediateData; fileio.TestLateImmediateData; fileio.TestNoImmediateCookie"},
	{"| else | SUCCESS after the next completion, in any mode of completion |", "fileio.TestHostileWakeUp"},

	// Memory.
	{"The client exposes memory for writing only", `fileio.TestHostileAnswerEndsConnection/write beyond the exposed memory;
		fileio.TestHostileAnswerEndsConnection/write with a wrong handle; fileio.TestHostileStatusBlocks/beside it;
		fileio.TestHostileStatusBlocks/with another handle`},

	// Credits.
	{"A delta that leaves none, or Cookie 0 with another status, ends the connection.", `fileio.TestHostileAnswerEndsConnection/all credits taken back;
		fileio.TestHostileAnswerEndsConnection/delta without its status`},
	{"One is outstanding at a time", "fileio.TestHostileAnswerEndsConnection/two deltas; fileio.TestCreditsRightAfterAuth"},

	// Stalling and dying.
	{"a call of the library that gives up takes its memory back and stops waiting", `fileio.TestSilentServerEndsCallsThenConnection; fileio.TestCallEndsAtDeadline; fileio.TestNoCreditInTime;
		lwio.TestSilenceAtAnyByte; fileio.TestBatchOnSilentServer`},
	{"When a connection ends, the server touches no memory of the client's any more.", `fileio.TestLostConnectionGoesOnOverSMB;
		fileio.TestDeathAtEveryByte; lwio.TestDeathOfTheChannel; lwio.TestDeathOfSMB; lwio.TestCutAtEveryOperation`},
}
