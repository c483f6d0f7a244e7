// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// level is how hard to compress. Lower ones do without a dictionary; higher
// ones take more time than they save bytes.
const level = 2

// contentMax bounds, in bytes, what is compressed and what it is decompressed to:
// far more than an API server stores. A compressed content that is larger was made
// by somebody who wants the agent to run out of memory.
const contentMax = 16 << 20

// contentMark begins each compressed content. Texts that are decoded from JSON are
// UTF-8, which has no such byte: no server can bring a content that we would decompress.
const contentMark = "\xff"

var errTooLarge = errors.New("the content is too large")

// objectCodec compresses and decompresses objects. What one compresses every other can
// decompress. It is safe for concurrent use.
//
// The compressed content is in metadata.selfLink: servers have not filled that
// since Kubernetes 1.20, and it costs nothing beside the content. What a server
// fills it with all the same is dropped.
type objectCodec struct {
	dictionary       []byte
	writers, readers sync.Pool
}

func newObjectCodec() (*objectCodec, error) {
	dictionary, err := exampleDictionary()
	if err != nil {
		return nil, err
	}
	return &objectCodec{dictionary: dictionary}, nil
}

// workContent is what of a ManifestWork is compressed.
type workContent struct {
	Spec      workv1.ManifestWorkSpec   `json:"spec"` // without the manifests
	Status    workv1.ManifestWorkStatus `json:"status"`
	Manifests [][]byte                  `json:"manifests"` // each byte by byte as it came, since hashes are made of it
}

// compressWork compresses the spec and the status of a work. If they are
// already, or too large to be, nothing happens.
func (c *objectCodec) compressWork(work *workv1.ManifestWork) error {
	if isCompressed(work) {
		return nil
	}
	work.SetSelfLink("")
	whole := contentOf(work)
	compressed, err := c.compressValue(&whole)
	if errors.Is(err, errTooLarge) {
		return nil // it stays as it is
	}
	if err != nil {
		return fmt.Errorf("compressing manifestwork %q: %w", work.Name, err)
	}
	work.SetSelfLink(compressed)
	work.Spec = workv1.ManifestWorkSpec{}
	work.Status = workv1.ManifestWorkStatus{}
	return nil
}

func contentOf(work *workv1.ManifestWork) workContent {
	c := workContent{Spec: work.Spec, Status: work.Status}
	for i := range work.Spec.Workload.Manifests {
		c.Manifests = append(c.Manifests, work.Spec.Workload.Manifests[i].Raw)
	}
	c.Spec.Workload.Manifests = nil
	return c
}

// decompressWork returns a work as it was before. It shares the metadata with
// the compressed one. One that is not compressed is returned itself.
func (c *objectCodec) decompressWork(work *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if !isCompressed(work) {
		return work, nil
	}
	var whole workContent
	if err := c.decompressValue(work.GetSelfLink(), &whole); err != nil {
		return nil, fmt.Errorf("decompressing manifestwork %q: %w", work.Name, err)
	}
	opened := &workv1.ManifestWork{TypeMeta: work.TypeMeta, ObjectMeta: work.ObjectMeta, Spec: whole.Spec, Status: whole.Status}
	opened.SetSelfLink("")
	for _, raw := range whole.Manifests {
		opened.Spec.Workload.Manifests = append(opened.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return opened, nil
}

// compressRecord compresses the status of a record. If it is already, or too
// large to be, nothing happens.
func (c *objectCodec) compressRecord(record *workv1.AppliedManifestWork) error {
	if isCompressed(record) {
		return nil
	}
	record.SetSelfLink("")
	compressed, err := c.compressValue(&record.Status)
	if errors.Is(err, errTooLarge) {
		return nil // it stays as it is
	}
	if err != nil {
		return fmt.Errorf("compressing appliedmanifestwork %q: %w", record.Name, err)
	}
	record.SetSelfLink(compressed)
	record.Status = workv1.AppliedManifestWorkStatus{}
	return nil
}

// decompressRecord returns a record as it was before. It shares the metadata and
// the spec with the compressed one. One that is not compressed is returned
// itself.
func (c *objectCodec) decompressRecord(record *workv1.AppliedManifestWork) (*workv1.AppliedManifestWork, error) {
	if !isCompressed(record) {
		return record, nil
	}
	opened := &workv1.AppliedManifestWork{TypeMeta: record.TypeMeta, ObjectMeta: record.ObjectMeta, Spec: record.Spec}
	if err := c.decompressValue(record.GetSelfLink(), &opened.Status); err != nil {
		return nil, fmt.Errorf("decompressing appliedmanifestwork %q: %w", record.Name, err)
	}
	opened.SetSelfLink("")
	return opened, nil
}

// isCompressed reports whether an object has a content that was compressed here.
func isCompressed(object metav1.Object) bool {
	return strings.HasPrefix(object.GetSelfLink(), contentMark)
}

func (c *objectCodec) compressValue(value any) (string, error) {
	encoded, err := cbor.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	if len(encoded) > contentMax {
		return "", errTooLarge
	}
	var compressed strings.Builder
	compressed.WriteString(contentMark)
	writer, ok := c.writers.Get().(*flate.Writer)
	if ok {
		writer.Reset(&compressed)
	} else if writer, err = flate.NewWriterDict(&compressed, level, c.dictionary); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	defer c.writers.Put(writer)
	if _, err := writer.Write(encoded); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	return strings.Clone(compressed.String()), nil // without the room that the builder has left
}

func (c *objectCodec) decompressValue(compressed string, value any) error {
	reader, ok := c.readers.Get().(io.Reader)
	if !ok {
		reader = flate.NewReaderDict(nil, c.dictionary)
	}
	defer c.readers.Put(reader)
	if resetter, ok := reader.(flate.Resetter); ok {
		if err := resetter.Reset(strings.NewReader(strings.TrimPrefix(compressed, contentMark)), c.dictionary); err != nil {
			return fmt.Errorf("decompressing: %w", err)
		}
	}
	var encoded bytes.Buffer
	if _, err := encoded.ReadFrom(io.LimitReader(reader, contentMax+1)); err != nil {
		return fmt.Errorf("decompressing: %w", err)
	}
	if encoded.Len() > contentMax {
		return errTooLarge
	}
	if err := cbor.Unmarshal(encoded.Bytes(), value); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	return nil
}

// exampleDictionary returns what a usual work and a usual record look like before they
// are compressed: the dictionary, so that of small ones only what is special
// about them takes room.
func exampleDictionary() ([]byte, error) {
	var manifests []workv1.Manifest
	for _, text := range strings.Split(strings.TrimSpace(exampleManifests), "\n") {
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	work := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}}}
	work.Status.Conditions = []metav1.Condition{
		usualCondition(workv1.ManifestWorkConditionApplied, workv1.ManifestWorkReasonAppliedManifestWorkComplete, "All manifests are applied."),
		usualCondition(workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkReasonResourcesAvailable, "All objects exist on the cluster."),
	}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: "name"},
		Conditions: []metav1.Condition{
			usualCondition(workv1.ManifestConditionApplied, workv1.ManifestReasonAppliedManifestComplete, "The object matches the manifest."),
			usualCondition(workv1.ManifestConditionAvailable, workv1.ManifestReasonResourceAvailable, "The object exists on the cluster."),
		},
	}}
	record := workv1.AppliedManifestWorkStatus{AppliedResources: []workv1.AppliedManifestResourceMeta{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "name"}, Version: "v1",
		UID: "01234567-89ab-cdef-0123-456789abcdef",
	}}}
	var parts [][]byte
	for _, value := range []any{record, contentOf(work)} {
		encoded, err := cbor.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding the example of a work: %w", err)
		}
		parts = append(parts, encoded)
	}
	return slices.Concat(parts...), nil
}

func usualCondition(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: reason, Message: message}
}

// exampleManifests are the texts that manifests have most, one per line.
const exampleManifests = `
{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"name"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"name"},"subjects":[{"kind":"ServiceAccount","name":"name","namespace":"default"}]}
{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"app.kubernetes.io/name":"name"},"name":"name","namespace":"default"},"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}],"selector":{"app.kubernetes.io/name":"name"},"type":"ClusterIP"}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{},"labels":{"app":"name","app.kubernetes.io/instance":"name","app.kubernetes.io/name":"name","app.kubernetes.io/version":"1.0.0"},"name":"name","namespace":"default"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"name"}},"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"app":"name"}},"spec":{"containers":[{"args":[],"command":[],"env":[{"name":"NAME","value":"value"},{"name":"NAME","valueFrom":{"secretKeyRef":{"key":"key","name":"name"}}}],"image":"registry.example.com/name:v1.0.0","imagePullPolicy":"IfNotPresent","livenessProbe":{"httpGet":{"path":"/healthz","port":8080}},"name":"name","ports":[{"containerPort":8080,"name":"http","protocol":"TCP"}],"readinessProbe":{"httpGet":{"path":"/readyz","port":8080}},"resources":{"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"64Mi"}},"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"runAsNonRoot":true},"volumeMounts":[{"mountPath":"/etc/config","name":"config","readOnly":true}]}],"serviceAccountName":"name","volumes":[{"configMap":{"name":"name"},"name":"config"}]}}}}
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"name","namespace":"default"},"stringData":{},"type":"Opaque"}
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"name","namespace":"default"},"data":{"key":"value"}}
`
