// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"net/http"
	"sync"
)

// budget counts what clients may hold of one member: the answers that they are
// reading, and of each collection that they follow what they were told of it
// since they listed it. It is safe for concurrent use.
type budget struct {
	mu       sync.Mutex
	buffered int64
	told     map[string]told
}

// told is what was told of a collection: how many bytes and events were the list,
// and how many came since in watches that go on from one.
type told struct {
	bytes, sinceBytes int64
	listed, since     int
}

// collectionOf names what is listed or watched.
func collectionOf(request *http.Request) string {
	query := request.URL.Query()
	return request.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
}

// beginsAnew tells whether the answer replaces what is held of the collection.
func beginsAnew(request *http.Request, kind requestKind) bool {
	query := request.URL.Query()
	switch kind {
	case kindList:
		return query.Get("continue") == ""
	case kindWatch:
		return query.Get("sendInitialEvents") == "true"
	default:
		return false
	}
}

// renew forgets what was told of a collection, as a client does that lists it.
func (b *budget) renew(collection string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.told, collection)
}

// worn tells whether a collection had so many events that it has to be listed
// before more are taken.
func (b *budget) worn(collection string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.told[collection]
	return have.since >= eventsMax || have.sinceBytes > listBytesMax
}

// take adds what was told of a collection, and tells whether there is room for it.
func (b *budget) take(collection string, more told) (room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told == nil {
		b.told = map[string]told{}
	}
	have := b.told[collection]
	have.bytes += more.bytes
	have.listed += more.listed
	have.since += more.since
	have.sinceBytes += more.sinceBytes
	b.told[collection] = have
	return (more.bytes == 0 || have.bytes <= listBytesMax) && (more.listed == 0 || have.listed <= eventsMax) &&
		(more.sinceBytes == 0 || have.since < eventsMax && have.sinceBytes <= listBytesMax)
}

// buffer adds what is being read of an answer, and tells whether there is room
// for it. A negative number gives it back.
func (b *budget) buffer(bytes int64) (room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffered += bytes
	return b.buffered <= bufferedBytesMax
}
