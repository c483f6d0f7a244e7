// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"sync"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// Records as they were last written are remembered until the cache has them. A
// member decides how large its answers are, and when its cache tells of them.
const (
	// largeRecordBytes is from how many bytes on a record is large: those of works with
	// fewer than a hundred objects are not.
	largeRecordBytes = 16 << 10
	// largeRecordsMax is how many large records are remembered: two for each worker. What
	// is forgotten is read from the cache, and written again if that is behind.
	largeRecordsMax = 16
)

// largeRecords are the large records that were written last. The zero value has none.
type largeRecords struct {
	mu   sync.Mutex
	kept [largeRecordsMax]writtenRecord
	next int
}

type writtenRecord struct {
	memory *RecordMemory
	record *workv1.AppliedManifestWork
}

// keepWritten takes in a record that a memory has now. If it is large, the oldest
// large one is forgotten.
func (l *largeRecords) keepWritten(memory *RecordMemory, record *workv1.AppliedManifestWork) {
	if text, err := json.Marshal(record); err == nil && len(text) <= largeRecordBytes {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if oldest := l.kept[l.next]; oldest.memory != nil {
		oldest.memory.written.CompareAndSwap(oldest.record, nil)
	}
	l.kept[l.next] = writtenRecord{memory: memory, record: record}
	l.next = (l.next + 1) % largeRecordsMax
}
