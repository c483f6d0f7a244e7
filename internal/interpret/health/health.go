// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health tells from an object alone whether it does what it is for.
//
// All kinds are judged by the conventions that kstatus
// (sigs.k8s.io/cli-utils/pkg/kstatus) describes: metadata.deletionTimestamp,
// status.observedGeneration, and the conditions Stalled, Reconciling and
// Ready. Kinds of Kubernetes that say more in other fields have a rule of
// their own, one file for each, whose comment names what it follows.
//
// It is pure: nothing depends on the time of day, so an object that waits is
// Progressing for as long as it waits.
package health

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// Status is the health of an object in a word.
type Status string

const (
	// Healthy is an object that is as it should be.
	Healthy Status = "Healthy"
	// Progressing is an object that is not yet as it should be, and nothing says
	// that it will not be.
	Progressing Status = "Progressing"
	// Degraded is an object that will not be as it should be by waiting, or whose
	// controller says that it failed.
	Degraded Status = "Degraded"
	// Terminating is an object that is being deleted.
	Terminating Status = "Terminating"
	// Unknown is an object that cannot be judged.
	Unknown Status = "Unknown"
)

// messageBytesMax is the length of a message in bytes; texts of an object that
// are longer are cut.
const messageBytesMax = 1024

// Health is what is known about the health of an object.
type Health struct {
	Status Status
	// Reason is one word in CamelCase, for programs.
	Reason string
	// Message is a sentence that tells what is missing or wrong. It is the same
	// each time for the same object.
	Message string
}

// rule judges an object of one kind that is not being deleted.
type rule func(object map[string]any) Health

// Of tells the health of an object. It takes any object, however odd.
func Of(object *unstructured.Unstructured) Health {
	if object == nil || object.Object == nil {
		return Health{Unknown, "NoObject", "There is no object."}
	}
	h := of(object.Object, object.GroupVersionKind().GroupKind())
	h.Message = cut(h.Message)
	return h
}

func of(object map[string]any, kind schema.GroupKind) Health {
	if h, ok := terminating(object, kind); ok {
		return h
	}
	if state, ok := object["status"]; ok && state != nil {
		if _, ok := state.(map[string]any); !ok {
			return Health{Unknown, "StatusNotReadable", "The object's status is not an object."}
		}
	}
	if h, ok := unobserved(object); ok {
		return h
	}
	if h, ok := declared(object); ok {
		return h
	}
	if judge := ruleOf(kind); judge != nil {
		return judge(object)
	}
	return ready(object)
}

// ruleOf returns the rule of a kind, nil if the conventions are all there is.
func ruleOf(kind schema.GroupKind) rule {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deployment
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSet
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return daemonSet
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Kind: "ReplicationController"}:
		return replicaSet
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return job
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return cronJob
	case schema.GroupKind{Kind: "Pod"}:
		return pod
	case schema.GroupKind{Kind: "Service"}:
		return service
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return persistentVolumeClaim
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		return horizontalPodAutoscaler
	case schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}:
		return podDisruptionBudget
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return customResourceDefinition
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return apiService
	case schema.GroupKind{Kind: "Namespace"}:
		return namespace
	}
	return nil
}

func healthy(reason, format string, args ...any) Health {
	return Health{Healthy, reason, fmt.Sprintf(format, args...)}
}

func progressing(reason, format string, args ...any) Health {
	return Health{Progressing, reason, fmt.Sprintf(format, args...)}
}

func degraded(reason, format string, args ...any) Health {
	return Health{Degraded, reason, fmt.Sprintf(format, args...)}
}

// reasonOr returns a reason that an object gives, if it can be one.
func reasonOr(given, otherwise string) string {
	if given == "" || len(given) > 100 || strings.ContainsFunc(given, notInReason) || notLetter(given[0]) {
		return otherwise
	}
	return given
}

func notInReason(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func notLetter(b byte) bool {
	return (b < 'a' || b > 'z') && (b < 'A' || b > 'Z')
}

// because appends what an object says to a sentence, if it says anything.
func because(sentence, given string) string {
	if given = strings.TrimSpace(given); given == "" {
		return sentence + "."
	}
	return sentence + ": " + strings.TrimSuffix(given, ".") + "."
}

func cut(message string) string {
	if len(message) <= messageBytesMax {
		return message
	}
	return strings.ToValidUTF8(message[:messageBytesMax-len("...")], "") + "..."
}

// finalizers returns the finalizers of an object, in order.
func finalizers(object map[string]any) string {
	var names []string
	for _, entry := range fields.List(object, "metadata", "finalizers") {
		if name, ok := entry.(string); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
