//! The documents people write and read: service graphs, function templates, and the pcap filter language.
