// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/outage"
)

// stored are the keys of what propagation is about, as the API server stores it.
func stored() []string {
	return []string{
		"/registry/deployments/", "/registry/configmaps/default/", "/registry/policy.karmada.io/", "/registry/work.karmada.io/",
		"/registry/work.open-cluster-management.io/",
	}
}

// entry is a key of etcd and its value.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// backUp returns what is stored.
func (w world) backUp() []entry {
	w.Helper()
	var all []entry
	for _, prefix := range stored() {
		var found struct {
			Entries []entry `json:"kvs"`
		}
		w.etcd("range", prefixed(prefix), &found)
		all = append(all, found.Entries...)
	}
	return all
}

// restore makes what is stored what it was: what came since is gone, what was
// deleted is back, all with the UIDs that they had. Versions go on from those that
// were given, as a restore of Capstan has it.
func (w world) restore(all []entry) {
	w.Helper()
	for _, prefix := range stored() {
		w.etcd("deleterange", prefixed(prefix), nil)
	}
	for _, one := range all {
		w.etcd("put", one, nil)
	}
}

// prefixed selects all keys with a prefix.
func prefixed(prefix string) map[string][]byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return map[string][]byte{"key": []byte(prefix), "range_end": end}
}

// etcd asks for something.
func (w world) etcd(what string, request, answer any) {
	w.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		w.Fatal(err)
	}
	post, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.storage+"/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		w.Fatalf("%s of etcd: %s %s %v", what, response.Status, text, err)
	}
}

// TestAHubThatIsAnHourOld restores the hub from a backup, after which objects had
// come, gone, moved and been scaled. What the backup declares is sent as it was,
// and none of its works is deleted on the way. What the clusters have been sent
// since is for their agents to keep.
func TestAHubThatIsAnHourOld(t *testing.T) {
	w := newWorld(t, 3)
	s := w.open("api", "admin")
	then := s.on("member1", "member2")
	w.become(then, nil)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	w.stop()
	backup, before, server := w.backUp(), w.remember(), &outage.Server{}

	w.start()
	w.change(s.policy, func() { s.policy.Spec.Placement = onClusters("member2", "member3") })
	w.change(s.web, func() { s.web.Spec.Replicas = new(int32(5)) })
	w.remove(s.others[0])
	w.create(deployment("late", 1))
	since := s.on("member2", "member3")
	delete(since, "Deployment/api")
	since["Deployment/late"] = []string{"member2", "member3"}
	w.become(since, before)

	// Who restores a hub stops it, with its controllers.
	w.stop()
	w.restore(backup)
	w.start(server.Wrap)
	w.stay(before)
	w.become(then, before)
	w.quiet(server)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
}
