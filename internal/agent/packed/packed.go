// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packed keeps the ManifestWorks and AppliedManifestWorks that an
// agent has cached small as long as nobody looks at them: what they say is
// compressed, and only what tells whether to look stays readable.
//
// An object is packed when it comes into the cache, and opened by the pass
// that needs it. What is open is a copy, and forgotten after the pass.
package packed

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

// contentMax bounds, in bytes, what is packed and what is opened: far more than
// an API server stores. A packed content that is larger was made by somebody who
// wants the agent to run out of memory.
const contentMax = 16 << 20

var errTooLarge = errors.New("the content is too large")

// Packer packs and opens objects. What one packs every other can open. It is
// safe for concurrent use.
//
// The packed content is in metadata.selfLink: servers have not filled that
// since Kubernetes 1.20, and it costs nothing beside the content.
type Packer struct {
	dictionary       []byte
	writers, readers sync.Pool
}

// New returns a packer.
func New() (*Packer, error) {
	dictionary, err := example()
	if err != nil {
		return nil, err
	}
	return &Packer{dictionary: dictionary}, nil
}

// content is what of a ManifestWork is packed.
type content struct {
	Spec      workv1.ManifestWorkSpec   `json:"spec"` // without the manifests
	Status    workv1.ManifestWorkStatus `json:"status"`
	Manifests [][]byte                  `json:"manifests"` // each byte by byte as it came, since hashes are made of it
}

// Work packs the spec and the status of a work. If it is packed already, or too
// large to be, nothing happens.
func (p *Packer) Work(work *workv1.ManifestWork) error {
	if work.GetSelfLink() != "" {
		return nil
	}
	c := contentOf(work)
	packed, err := p.pack(&c)
	if errors.Is(err, errTooLarge) {
		return nil // it stays open
	}
	if err != nil {
		return fmt.Errorf("packing manifestwork %q: %w", work.Name, err)
	}
	work.SetSelfLink(packed)
	work.Spec, work.Status = workv1.ManifestWorkSpec{}, workv1.ManifestWorkStatus{}
	return nil
}

func contentOf(work *workv1.ManifestWork) content {
	c := content{Spec: work.Spec, Status: work.Status}
	for i := range work.Spec.Workload.Manifests {
		c.Manifests = append(c.Manifests, work.Spec.Workload.Manifests[i].Raw)
	}
	c.Spec.Workload.Manifests = nil
	return c
}

// OpenWork returns a work as it was before it was packed. It shares the
// metadata with the packed one. One that is not packed is returned itself.
func (p *Packer) OpenWork(work *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if work.GetSelfLink() == "" {
		return work, nil
	}
	var c content
	if err := p.open(work.GetSelfLink(), &c); err != nil {
		return nil, fmt.Errorf("opening manifestwork %q: %w", work.Name, err)
	}
	opened := &workv1.ManifestWork{TypeMeta: work.TypeMeta, ObjectMeta: work.ObjectMeta, Spec: c.Spec, Status: c.Status}
	opened.SetSelfLink("")
	for _, raw := range c.Manifests {
		opened.Spec.Workload.Manifests = append(opened.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return opened, nil
}

// Record packs the status of a record. If it is packed already, or too large to
// be, nothing happens.
func (p *Packer) Record(record *workv1.AppliedManifestWork) error {
	if record.GetSelfLink() != "" {
		return nil
	}
	packed, err := p.pack(&record.Status)
	if errors.Is(err, errTooLarge) {
		return nil // it stays open
	}
	if err != nil {
		return fmt.Errorf("packing appliedmanifestwork %q: %w", record.Name, err)
	}
	record.SetSelfLink(packed)
	record.Status = workv1.AppliedManifestWorkStatus{}
	return nil
}

// OpenRecord returns a record as it was before it was packed. It shares the
// metadata and the spec with the packed one. One that is not packed is returned
// itself.
func (p *Packer) OpenRecord(record *workv1.AppliedManifestWork) (*workv1.AppliedManifestWork, error) {
	if record.GetSelfLink() == "" {
		return record, nil
	}
	opened := &workv1.AppliedManifestWork{TypeMeta: record.TypeMeta, ObjectMeta: record.ObjectMeta, Spec: record.Spec}
	if err := p.open(record.GetSelfLink(), &opened.Status); err != nil {
		return nil, fmt.Errorf("opening appliedmanifestwork %q: %w", record.Name, err)
	}
	opened.SetSelfLink("")
	return opened, nil
}

func (p *Packer) pack(value any) (string, error) {
	encoded, err := cbor.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	if len(encoded) > contentMax {
		return "", errTooLarge
	}
	var packed strings.Builder
	writer, ok := p.writers.Get().(*flate.Writer)
	if ok {
		writer.Reset(&packed)
	} else if writer, err = flate.NewWriterDict(&packed, level, p.dictionary); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	defer p.writers.Put(writer)
	if _, err := writer.Write(encoded); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	return strings.Clone(packed.String()), nil // without the room that the builder has left
}

func (p *Packer) open(packed string, value any) error {
	reader, ok := p.readers.Get().(io.Reader)
	if !ok {
		reader = flate.NewReaderDict(nil, p.dictionary)
	}
	defer p.readers.Put(reader)
	if resetter, ok := reader.(flate.Resetter); ok {
		if err := resetter.Reset(strings.NewReader(packed), p.dictionary); err != nil {
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

// example returns what a usual work and a usual record look like before they
// are compressed: the dictionary, so that of small ones only what is special
// about them takes room.
func example() ([]byte, error) {
	var manifests []workv1.Manifest
	for _, text := range strings.Split(strings.TrimSpace(exampleManifests), "\n") {
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	work := &workv1.ManifestWork{Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}}}
	work.Status.Conditions = []metav1.Condition{
		usual(workv1.ManifestWorkConditionApplied, workv1.ManifestWorkReasonAppliedManifestWorkComplete, "All manifests are applied."),
		usual(workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkReasonResourcesAvailable, "All objects exist on the cluster."),
	}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: "name"},
		Conditions: []metav1.Condition{
			usual(workv1.ManifestConditionApplied, workv1.ManifestReasonAppliedManifestComplete, "The object is as the manifest says."),
			usual(workv1.ManifestConditionAvailable, workv1.ManifestReasonResourceAvailable, "The object exists on the cluster."),
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

func usual(conditionType, reason, message string) metav1.Condition {
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
