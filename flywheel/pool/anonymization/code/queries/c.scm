; Declarations.
(function_definition declarator: (_) @declarator.func)
(declaration declarator: (_) @declarator.var)
(parameter_declaration declarator: (_) @declarator.var)
(type_definition declarator: (_) @declarator.class)
(field_declaration declarator: (_) @declarator.field)
(init_declarator declarator: (identifier) @var)
(struct_specifier name: (type_identifier) @class body: (_))
(union_specifier name: (type_identifier) @class body: (_))
(enum_specifier name: (type_identifier) @class body: (_))
(enumerator name: (identifier) @var)
(preproc_def name: (identifier) @var)
(preproc_function_def name: (identifier) @func)
(preproc_params (identifier) @var)
(labeled_statement label: (statement_identifier) @var)

; Uses.
(field_expression argument: (_) @receiver field: (field_identifier) @member)
(field_designator (field_identifier) @member)
(preproc_arg) @tokens

; Not ours.
(declaration (storage_class_specifier "extern") declarator: (_) @declarator.foreign)
(attribute name: (identifier) @fixed)

; Text.
(comment) @comment
[(string_literal) (system_lib_string)] @string
