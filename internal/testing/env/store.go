// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// objectsPrefix begins the keys of all that an API server stores.
	objectsPrefix = "/registry/"
	// objectsEnd is the key after all of them.
	objectsEnd = "/registry0"

	// changesMax is how many changes are sent at once; etcd takes 128.
	changesMax = 100
	// storeTimeout is how long etcd may take to answer on a busy machine.
	storeTimeout = time.Minute
)

// etcdStore is an etcd that serves anybody, by the JSON form of its API.
type etcdStore struct{ url string }

// ReadStore returns what an API server has stored in etcd under a key such as
// /registry/configmaps/default/settings, as it is there.
func ReadStore(ctx context.Context, environment *envtest.Environment, key string) ([]byte, error) {
	answer := struct {
		Objects []storedObject `json:"kvs"`
	}{}
	if err := storeOf(environment).postRequest(ctx, "range", map[string]any{"key": []byte(key)}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Objects) == 0 {
		return nil, fmt.Errorf("etcd has nothing under %s", key)
	}
	return answer.Objects[0].Value, nil
}

// WriteStore puts a value into the etcd of an API server, past all that the API server
// does with what is written by it.
func WriteStore(ctx context.Context, environment *envtest.Environment, key string, value []byte) error {
	_, err := storeOf(environment).putObject(ctx, storedObject{Key: []byte(key), Value: value})
	return err
}

func storeOf(environment *envtest.Environment) etcdStore {
	return etcdStore{url: environment.ControlPlane.Etcd.URL.String()}
}

// storedObject is what an API server has stored under a key.
type storedObject struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value"`
	Revision int64  `json:"mod_revision,string"` // of the last change
}

// listRevisions returns the keys of all objects with the revision of their last change.
func (s etcdStore) listRevisions(ctx context.Context) (map[string]int64, error) {
	all, err := s.listRange(ctx, map[string]any{"keys_only": true})
	if err != nil {
		return nil, err
	}
	revisions := make(map[string]int64, len(all))
	for _, o := range all {
		revisions[string(o.Key)] = o.Revision
	}
	return revisions, nil
}

// listObjects returns all objects by their keys.
func (s etcdStore) listObjects(ctx context.Context) (map[string]storedObject, error) {
	all, err := s.listRange(ctx, map[string]any{})
	if err != nil {
		return nil, err
	}
	objects := make(map[string]storedObject, len(all))
	for _, o := range all {
		objects[string(o.Key)] = o
	}
	return objects, nil
}

func (s etcdStore) listRange(ctx context.Context, question map[string]any) ([]storedObject, error) {
	question["key"], question["range_end"] = []byte(objectsPrefix), []byte(objectsEnd)
	answer := struct {
		Objects []storedObject `json:"kvs"`
	}{}
	err := s.postRequest(ctx, "range", question, &answer)
	return answer.Objects, err
}

// deleteKeys deletes keys.
func (s etcdStore) deleteKeys(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, changesMax) {
		var requests []map[string]any
		for _, key := range some {
			requests = append(requests, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
		}
		if err := s.postRequest(ctx, "txn", map[string]any{"success": requests}, nil); err != nil {
			return err
		}
	}
	return nil
}

// putObject stores the value of an object under its key, and returns the revision of that.
func (s etcdStore) putObject(ctx context.Context, object storedObject) (int64, error) {
	answer := struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}{}
	err := s.postRequest(ctx, "put", map[string]any{"key": object.Key, "value": object.Value}, &answer)
	return answer.Header.Revision, err
}

// postRequest asks etcd and reads its answer into a pointer, if there is one.
func (s etcdStore) postRequest(ctx context.Context, what string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.url, "/")+"/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of etcd to %s: %w", what, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking etcd to %s: it answers %s: %s", what, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("reading the answer of etcd to %s: %w", what, err)
	}
	return nil
}
