"""Everything that speaks Storm: Nimbus over Thrift, capture and submission, topology state, worker logs."""
