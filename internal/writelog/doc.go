// Package writelog keeps the writes of a connection in a small file, so that the death of the process loses
// none of them: which writes have begun, and the results of those that have ended. The next process answers a write that is
// sent again by its result, and knows which writes are in doubt: begun, without a result.
//
// # Promise
//
// Each connection has a Log of its own, a file of fixed size that is mapped into memory. Begin and End store a few words into
// it, without a system call, an allocation or a wait for a disk. The pages belong to the host, so they outlive
// the process: kill -9, the OOM killer, a panic. A reboot of the host ends them: each file has the boot id of the
// host, and Load removes files of another boot, whose pages may be on the disk in part.
//
// Load finds the stores of Begin if it finds an effect of anything that the caller has done after Begin, and likewise for
// End. The process may die between any two stores: the number of a write is stored last, at
// once, and a slot without a number is empty. The result is one word.
//
// # Files
//
// A file "writes.ID" has a header of one page, and slots of 64 bytes: a ring for the writes of the connection, and
// behind it the writes of the connections that it replaced. Integers are in the byte order of the host, which alone reads them.
// The file is made under another name with all its space, and renamed, so that a file with that name is whole. Different
// contents of the header or of a slot are damage: Load reports it and removes the file.
//
// The header: magic (8 bytes), CRC-32C of the 1024 bytes from 16 on with the fields that do not change (4), zeros (4), number of slots of the
// ring (4), number of earlier writes (4), ID (8), Previous (8), PreviousNext (8), Replaced (8), boot id and user, each with its
// length (2 and 64; 2 and up to 918). At 2048: Next (8), and 1 from the first message on (8).
//
// A slot: number + 1, or 0 (8); result: status and information, or all ones without one (8); offset in the file (8); length, with the highest
// bit for a write that another has overtaken (8); key of the open (24); check of number, offset, length and key (8).
package writelog
