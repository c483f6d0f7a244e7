// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ErrSubject says that spec.executor does not name an identity.
var ErrSubject = errors.New("the executor is not a ServiceAccount")

// Subject is a ServiceAccount of the member. It need not exist: permissions
// are given to names.
type Subject struct {
	Namespace, Name string
}

// SubjectOf returns whom an executor names. Its errors are ErrSubject, and
// are meant for the author of the work. The hub's checks are not relied on: a
// name with a colon in it would be the name of somebody else.
func SubjectOf(executor *workv1.ManifestWorkExecutor) (Subject, error) {
	if kind := executor.Subject.Type; kind != workv1.ExecutorSubjectTypeServiceAccount {
		return Subject{}, fmt.Errorf("%w: subject.type is %q, want %s", ErrSubject, kind, workv1.ExecutorSubjectTypeServiceAccount)
	}
	account := executor.Subject.ServiceAccount
	if account == nil {
		return Subject{}, fmt.Errorf("%w: subject.serviceAccount is missing", ErrSubject)
	}
	if problems := validation.IsDNS1123Label(account.Namespace); len(problems) > 0 {
		return Subject{}, fmt.Errorf("%w: subject.serviceAccount.namespace %q: %s", ErrSubject, account.Namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(account.Name); len(problems) > 0 {
		return Subject{}, fmt.Errorf("%w: subject.serviceAccount.name %q: %s", ErrSubject, account.Name, problems[0])
	}
	return Subject{Namespace: account.Namespace, Name: account.Name}, nil
}

// UserName returns the name that the API server knows the ServiceAccount by.
func (s Subject) UserName() string { return "system:serviceaccount:" + s.Namespace + ":" + s.Name }

// GroupNames returns the groups that the API server puts the ServiceAccount in.
func (s Subject) GroupNames() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + s.Namespace, "system:authenticated"}
}
