package nbdwire

import "fmt"

// Option is the code of an option of the handshake.
//
// Source: [NBD §Option types]
type Option uint32

// The options that a server of this package knows.
const (
	OptExportName      Option = 1
	OptAbort           Option = 2
	OptList            Option = 3
	OptStartTLS        Option = 5
	OptInfo            Option = 6
	OptGo              Option = 7
	OptStructuredReply Option = 8
	OptListMetaContext Option = 9
	OptSetMetaContext  Option = 10
)

// String is the name of the protocol, or the number.
func (o Option) String() string {
	switch o {
	case OptExportName:
		return "NBD_OPT_EXPORT_NAME"
	case OptAbort:
		return "NBD_OPT_ABORT"
	case OptList:
		return "NBD_OPT_LIST"
	case OptStartTLS:
		return "NBD_OPT_STARTTLS"
	case OptInfo:
		return "NBD_OPT_INFO"
	case OptGo:
		return "NBD_OPT_GO"
	case OptStructuredReply:
		return "NBD_OPT_STRUCTURED_REPLY"
	case OptListMetaContext:
		return "NBD_OPT_LIST_META_CONTEXT"
	case OptSetMetaContext:
		return "NBD_OPT_SET_META_CONTEXT"
	}
	return fmt.Sprintf("option %d", uint32(o))
}

// OptionReply is the type of a reply to an option.
//
// Source: [NBD §Option reply types]
type OptionReply uint32

// The types of replies. A type with bit 31 is an error, and its data is a text.
const (
	RepAck    OptionReply = 1
	RepServer OptionReply = 2
	RepInfo   OptionReply = 3

	RepErrUnsup    OptionReply = 1<<31 + 1
	RepErrPolicy   OptionReply = 1<<31 + 2
	RepErrInvalid  OptionReply = 1<<31 + 3
	RepErrTLSReqd  OptionReply = 1<<31 + 5
	RepErrUnknown  OptionReply = 1<<31 + 6
	RepErrShutdown OptionReply = 1<<31 + 7
	RepErrTooBig   OptionReply = 1<<31 + 9
)

// TransmissionFlags are the properties of an export.
//
// Source: [NBD §Transmission flags]
type TransmissionFlags uint16

// The transmission flags.
const (
	HasFlags        TransmissionFlags = 1 << 0
	ReadOnly        TransmissionFlags = 1 << 1
	SendFlush       TransmissionFlags = 1 << 2
	SendFUA         TransmissionFlags = 1 << 3
	SendWriteZeroes TransmissionFlags = 1 << 6
	SendDF          TransmissionFlags = 1 << 7
	CanMultiConn    TransmissionFlags = 1 << 8
	SendCache       TransmissionFlags = 1 << 10
	SendFastZero    TransmissionFlags = 1 << 11
)

// Command is the type of a request.
//
// Source: [NBD §Request types]
type Command uint16

// The commands.
const (
	CmdRead        Command = 0
	CmdWrite       Command = 1
	CmdDisc        Command = 2
	CmdFlush       Command = 3
	CmdTrim        Command = 4
	CmdCache       Command = 5
	CmdWriteZeroes Command = 6
	CmdBlockStatus Command = 7
)

// String is the name of the protocol, or the number.
func (c Command) String() string {
	switch c {
	case CmdRead:
		return "NBD_CMD_READ"
	case CmdWrite:
		return "NBD_CMD_WRITE"
	case CmdDisc:
		return "NBD_CMD_DISC"
	case CmdFlush:
		return "NBD_CMD_FLUSH"
	case CmdTrim:
		return "NBD_CMD_TRIM"
	case CmdCache:
		return "NBD_CMD_CACHE"
	case CmdWriteZeroes:
		return "NBD_CMD_WRITE_ZEROES"
	case CmdBlockStatus:
		return "NBD_CMD_BLOCK_STATUS"
	}
	return fmt.Sprintf("command %d", uint16(c))
}

// CommandFlags modify a request.
//
// Source: [NBD §Command flags]
type CommandFlags uint16

// The flags of commands.
const (
	FlagFUA      CommandFlags = 1 << 0
	FlagNoHole   CommandFlags = 1 << 1
	FlagDF       CommandFlags = 1 << 2
	FlagFastZero CommandFlags = 1 << 4
)

// Errno is an error value of a reply; 0 is success.
//
// Source: [NBD §Error values]
type Errno uint32

// The error values that a reply may have.
const (
	EPERM     Errno = 1
	EIO       Errno = 5
	ENOMEM    Errno = 12
	EINVAL    Errno = 22
	ENOSPC    Errno = 28
	EOVERFLOW Errno = 75
	ENOTSUP   Errno = 95
	ESHUTDOWN Errno = 108
)

// Error is the name of the protocol and its meaning.
func (e Errno) Error() string {
	switch e {
	case EPERM:
		return "NBD_EPERM: operation not permitted"
	case EIO:
		return "NBD_EIO: input/output error"
	case ENOMEM:
		return "NBD_ENOMEM: cannot allocate memory"
	case EINVAL:
		return "NBD_EINVAL: invalid argument"
	case ENOSPC:
		return "NBD_ENOSPC: no space left on device"
	case EOVERFLOW:
		return "NBD_EOVERFLOW: value too large"
	case ENOTSUP:
		return "NBD_ENOTSUP: operation not supported"
	case ESHUTDOWN:
		return "NBD_ESHUTDOWN: the server is being shut down"
	}
	return fmt.Sprintf("NBD error %d", uint32(e))
}
